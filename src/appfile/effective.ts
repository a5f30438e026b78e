/** The file with every default, which is also the form of what an installation has. */
import type { GivenFile } from './files.ts'

export type BuildSource =
  | { readonly image: string }
  | { readonly repository: string; readonly branch: string; readonly submodules: boolean }
  | { readonly root: string }

/** What a build gets besides its source. */
export interface BuildInputs {
  /** Empty: as the files of the source say. */
  readonly dockerfile: string
  readonly args: Readonly<Record<string, string>>
  readonly env: readonly string[]
  readonly secrets: readonly string[]
}

export interface Worker {
  /** Empty: the program of the image. */
  readonly command: readonly string[]
  /** Replaces the arguments of the image, whose entrypoint stays. Only compose files can set it. */
  readonly arguments?: readonly string[]
  readonly vcpus: 1 | 2 | 3 | 4
  readonly memory_mib: 512 | 1024 | 2048 | 4096
  readonly disk_mib: number
  readonly replicas: number
  /** When the program is started again after it has ended. Absent: always. */
  readonly restart?: 'on-failure' | 'never'
  /** Absent: as the installation sets. */
  readonly max_restarts?: number
  /** How a new version replaces the active one. Absent: rolling. */
  readonly strategy?: 'one-at-a-time'
  /** Labels of hosts. Absent: any host. */
  readonly hosts?: {
    readonly require: Readonly<Record<string, string>>
    readonly prefer: Readonly<Record<string, string>>
  }
  readonly autoscaling?: {
    readonly max_replicas: number
    readonly cpu_percent: number
    readonly memory_percent: number
  }
}

export interface WebProcess extends Worker {
  readonly port: number
  readonly scale_to_zero: boolean
  readonly drain_seconds: number
  readonly canary?: {
    readonly percent: number
    readonly seconds: number
    readonly max_error_percent: number
    readonly min_requests: number
  }
  readonly health: { readonly path: string }
}

export interface FileVolume {
  readonly name: string
  readonly mount: string
  readonly size_mib: number
  readonly read_only: boolean
}

export interface FileJob {
  readonly schedule: string
  readonly command: readonly string[]
  readonly time_zone: string
  readonly overlap: 'skip' | 'allow' | 'replace'
  readonly retries: number
  readonly timeout_seconds: number
}

export interface EffectiveFile {
  readonly app: string
  readonly project?: string
  readonly domains: readonly string[]
  readonly build: BuildSource
  /** Absent: nothing but the source. */
  readonly inputs?: BuildInputs
  readonly release?: { readonly command: readonly string[] }
  readonly env: Readonly<Record<string, string>>
  /** Attached environment groups, in their order. Absent: the file says nothing about them, and they stay as they are. */
  readonly envGroups?: readonly string[]
  /** Variables whose values are never shown. */
  readonly secrets?: readonly string[]
  /** What a new app is; that of a compose file may be a worker of a stack. */
  readonly kind?: 'web' | 'worker'
  readonly stack?: string
  readonly processes: { readonly web: WebProcess }
  /** The other processes, by name. */
  readonly workers: Readonly<Record<string, Worker>>
  readonly volumes: readonly FileVolume[]
  /** Absent: none. */
  readonly files?: readonly GivenFile[]
  /** Jobs by name. Absent: the file says nothing about them, and they stay as they are. */
  readonly jobs?: Readonly<Record<string, FileJob>>
  /** TCP services by name. Absent: they stay as they are. */
  readonly services?: Readonly<Record<string, FileService>>
}

export interface FileService {
  readonly port: number
  readonly tls: 'none' | 'sni'
}

/** Name of the app that runs a worker. */
export const workerApp = (app: string, worker: string) => `${app}-${worker}`

/** A value of the file, as it is compared and shown. */
export type Value = string | number | boolean | readonly string[]

/** The settings of a process as pairs of key and value; a key without a value is absent. */
export function flatProcess(process: Worker & Partial<WebProcess>): ReadonlyMap<string, Value> {
  const { health, autoscaling, canary, command, hosts, ...rest } = process
  const pairs = new Map<string, Value>(Object.entries(rest))
  if (command.length > 0) pairs.set('command', command)
  if (health) pairs.set('health.path', health.path)
  for (const [name, value] of Object.entries(autoscaling ?? {})) pairs.set(`autoscaling.${name}`, value)
  for (const [name, value] of Object.entries(hosts?.require ?? {})) pairs.set(`hosts.require.${name}`, value)
  for (const [name, value] of Object.entries(hosts?.prefer ?? {})) pairs.set(`hosts.prefer.${name}`, value)
  for (const [name, value] of Object.entries(canary ?? {})) pairs.set(`canary.${name}`, value)
  return pairs
}

/** The inputs of a build as pairs of key and value; a key without a value is absent. */
export function flatInputs(inputs: BuildInputs | undefined): ReadonlyMap<string, Value> {
  const pairs = new Map<string, Value>()
  if (!inputs) return pairs
  if (inputs.dockerfile !== '') pairs.set('dockerfile', inputs.dockerfile)
  for (const [name, value] of Object.entries(inputs.args)) pairs.set(`args.${name}`, value)
  if (inputs.env.length > 0) pairs.set('env', inputs.env)
  if (inputs.secrets.length > 0) pairs.set('secrets', inputs.secrets)
  return pairs
}

/** Undefined if the build gets nothing but its source. */
export const anyInputs = (inputs: BuildInputs): BuildInputs | undefined =>
  flatInputs(inputs).size === 0 ? undefined : inputs

/** A source as text, to compare and to show. */
export function sourceText(source: BuildSource): string {
  if ('image' in source) return `image ${source.image}`
  if ('root' in source) return `folder ${source.root}`
  const branch = source.branch === '' ? '' : `, branch ${source.branch}`
  return `repository ${source.repository}${branch}${source.submodules ? ', with submodules' : ''}`
}

/**
 * The effective form of `mote.toml`: all defaults are filled in. The state of an installed app is read into the same
 * form, so that both can be compared.
 */
import type { GivenFile } from './files.ts'

export type BuildSource =
  | { readonly image: string }
  | { readonly repository: string; readonly branch: string; readonly submodules: boolean }
  | { readonly root: string }

/** What a build needs besides its source: Dockerfile, arguments, variables and secrets. */
export interface BuildInputs {
  /** Path of the Dockerfile; empty: the build method is detected from the source. */
  readonly dockerfile: string
  readonly args: Readonly<Record<string, string>>
  readonly env: readonly string[]
  readonly secrets: readonly string[]
}

export interface Worker {
  /** Command that the process runs; empty: the command of the image. */
  readonly command: readonly string[]
  /**
   * Replaces the arguments of the image's command, but not its entrypoint. Only compose files can set this, not
   * `mote.toml`.
   */
  readonly arguments?: readonly string[]
  readonly vcpus: 1 | 2 | 3 | 4
  readonly memory_mib: 512 | 1024 | 2048 | 4096
  readonly disk_mib: number
  readonly replicas: number
  /** After which exits the program is restarted; absent: after each exit. */
  readonly restart?: 'on-failure' | 'never'
  /** How often the program may be restarted before its VM counts as crashed; absent: the installation's default. */
  readonly max_restarts?: number
  /** How VMs of a new version replace those of the active one; absent: rolling. */
  readonly strategy?: 'one-at-a-time'
  /** Labels that hosts must or should have; absent: any host. */
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
  /** What the build needs besides its source; absent: nothing. */
  readonly inputs?: BuildInputs
  readonly release?: { readonly command: readonly string[] }
  readonly env: Readonly<Record<string, string>>
  /**
   * Names of the attached environment groups, in order. Absent: the file does not mention any, and the app keeps its
   * groups.
   */
  readonly envGroups?: readonly string[]
  /** Names of variables whose values are never shown. */
  readonly secrets?: readonly string[]
  /**
   * Kind of an app that is created; absent: `web`. An app of kind `worker` without a web app comes from a compose file
   * only.
   */
  readonly kind?: 'web' | 'worker'
  readonly stack?: string
  readonly processes: { readonly web: WebProcess }
  /** The processes besides `web`, by name. */
  readonly workers: Readonly<Record<string, Worker>>
  readonly volumes: readonly FileVolume[]
  /** Files that the app gets in its VMs; absent: none. */
  readonly files?: readonly GivenFile[]
  /** Jobs by name. Absent: the file does not mention them, and the app keeps its jobs. */
  readonly jobs?: Readonly<Record<string, FileJob>>
  /** TCP services by name. Absent: the file does not mention them, and the app keeps its services. */
  readonly services?: Readonly<Record<string, FileService>>
}

export interface FileService {
  readonly port: number
  readonly tls: 'none' | 'sni'
}

/** Returns the name of the app that runs a worker process. */
export const workerApp = (app: string, worker: string) => `${app}-${worker}`

/** A value in the form in which a plan compares and shows it. */
export type Value = string | number | boolean | readonly string[]

/** Returns the settings of a process as pairs of key and value. Keys without a value are left out. */
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

/** Returns the inputs of a build as pairs of key and value. Keys without a value are left out. */
export function flatInputs(inputs: BuildInputs | undefined): ReadonlyMap<string, Value> {
  const pairs = new Map<string, Value>()
  if (!inputs) return pairs
  if (inputs.dockerfile !== '') pairs.set('dockerfile', inputs.dockerfile)
  for (const [name, value] of Object.entries(inputs.args)) pairs.set(`args.${name}`, value)
  if (inputs.env.length > 0) pairs.set('env', inputs.env)
  if (inputs.secrets.length > 0) pairs.set('secrets', inputs.secrets)
  return pairs
}

/** Returns the build inputs; undefined if all of them are empty. */
export const anyInputs = (inputs: BuildInputs): BuildInputs | undefined =>
  flatInputs(inputs).size === 0 ? undefined : inputs

/** Returns a source as text, which a plan compares and shows. */
export function sourceText(source: BuildSource): string {
  if ('image' in source) return `image ${source.image}`
  if ('root' in source) return `folder ${source.root}`
  const branch = source.branch === '' ? '' : `, branch ${source.branch}`
  return `repository ${source.repository}${branch}${source.submodules ? ', with submodules' : ''}`
}

/** The file with every default, which is also the form of what an installation has. */
import { domainToASCII } from 'node:url'
import type { AppFile } from './schema.ts'

export type BuildSource =
  | { readonly image: string }
  | { readonly repository: string; readonly branch: string; readonly submodules: boolean }
  | { readonly root: string }

export interface Worker {
  /** Empty: the program of the image. */
  readonly command: readonly string[]
  /** Replaces the arguments of the image, whose entrypoint stays. Only compose files can set it. */
  readonly arguments?: readonly string[]
  readonly vcpus: 1 | 2 | 3 | 4
  readonly memory_mib: 512 | 1024 | 2048 | 4096
  readonly disk_mib: number
  readonly replicas: number
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
  readonly release?: { readonly command: readonly string[] }
  readonly env: Readonly<Record<string, string>>
  /** Variables whose values are never shown. */
  readonly secrets?: readonly string[]
  /** What a new app is; that of a compose file may be a worker of a stack. */
  readonly kind?: 'web' | 'worker'
  readonly stack?: string
  readonly processes: { readonly web: WebProcess }
  /** The other processes, by name. */
  readonly workers: Readonly<Record<string, Worker>>
  readonly volumes: readonly FileVolume[]
  /** Jobs by name. Absent: the file says nothing about them, and they stay as they are. */
  readonly jobs?: Readonly<Record<string, FileJob>>
}

/** Fills in the defaults of the schema. */
export function effectiveFile(file: AppFile): EffectiveFile {
  const web = file.processes?.web ?? {}
  return {
    app: file.app,
    ...(file.project === undefined ? {} : { project: file.project }),
    domains: (file.domains ?? []).map(domain => domainToASCII(domain) || domain),
    build: sourceOf(file.build ?? {}),
    ...(file.release ? { release: { command: file.release.command } } : {}),
    // The parser's objects have no prototype.
    env: Object.fromEntries(Object.entries(file.env ?? {})),
    processes: {
      web: {
        ...workerOf(web),
        port: web.port ?? 8080,
        scale_to_zero: web.scale_to_zero ?? false,
        drain_seconds: web.drain_seconds ?? 30,
        ...canaryOf(web),
        health: { path: web.health?.path ?? '/' },
      },
    },
    workers: Object.fromEntries(
      Object.entries(file.processes ?? {}).flatMap(([name, process]) =>
        name === 'web' || process === undefined ? [] : [[name, workerOf(process)]],
      ),
    ),
    volumes: (file.volumes ?? []).map(volume => ({
      name: volume.name,
      mount: volume.mount ?? '/data',
      size_mib: volume.size_mib ?? 1024,
      read_only: volume.read_only ?? false,
    })),
    ...(file.jobs ? { jobs: jobsOf(file.jobs) } : {}),
  }
}

const jobsOf = (jobs: NonNullable<AppFile['jobs']>): Record<string, FileJob> =>
  Object.fromEntries(
    Object.entries(jobs).map(([name, job]) => [
      name,
      {
        schedule: job.schedule,
        command: job.command,
        time_zone: job.time_zone ?? 'UTC',
        overlap: job.overlap ?? 'skip',
        retries: job.retries ?? 0,
        timeout_seconds: job.timeout_seconds ?? 3600,
      },
    ]),
  )

function workerOf(process: NonNullable<NonNullable<AppFile['processes']>['web']>): Worker {
  const { autoscaling } = process
  const sizes = {
    command: process.command ?? [],
    vcpus: process.vcpus ?? 1,
    memory_mib: process.memory_mib ?? 512,
    disk_mib: process.disk_mib ?? 1024,
    replicas: process.replicas ?? 1,
  }
  if (!autoscaling) return sizes
  const { max_replicas, cpu_percent = 80, memory_percent = 80 } = autoscaling
  return { ...sizes, autoscaling: { max_replicas, cpu_percent, memory_percent } }
}

type Web = NonNullable<NonNullable<AppFile['processes']>['web']>

function canaryOf({ canary }: Web): Pick<WebProcess, 'canary'> {
  if (!canary) return {}
  const { percent, seconds = 300, max_error_percent = 5, min_requests = 20 } = canary
  return { canary: { percent, seconds, max_error_percent, min_requests } }
}

/** Name of the app that runs a worker. */
export const workerApp = (app: string, worker: string) => `${app}-${worker}`

function sourceOf(build: NonNullable<AppFile['build']>): BuildSource {
  if (build.image !== undefined) return { image: build.image }
  if (build.repository === undefined) return { root: build.root ?? '.' }
  return { repository: build.repository, branch: build.branch ?? '', submodules: build.submodules ?? false }
}

/** A value of the file, as it is compared and shown. */
export type Value = string | number | boolean | readonly string[]

/** The settings of a process as pairs of key and value; a key without a value is absent. */
export function flatProcess(process: Worker & Partial<WebProcess>): ReadonlyMap<string, Value> {
  const { health, autoscaling, canary, command, ...rest } = process
  const pairs = new Map<string, Value>(Object.entries(rest))
  if (command.length > 0) pairs.set('command', command)
  if (health) pairs.set('health.path', health.path)
  for (const [name, value] of Object.entries(autoscaling ?? {})) pairs.set(`autoscaling.${name}`, value)
  for (const [name, value] of Object.entries(canary ?? {})) pairs.set(`canary.${name}`, value)
  return pairs
}

/** A source as text, to compare and to show. */
export function sourceText(source: BuildSource): string {
  if ('image' in source) return `image ${source.image}`
  if ('root' in source) return `folder ${source.root}`
  const branch = source.branch === '' ? '' : `, branch ${source.branch}`
  return `repository ${source.repository}${branch}${source.submodules ? ', with submodules' : ''}`
}

/** Fills in the defaults for keys that a `mote.toml` leaves out. */
import { domainToASCII } from 'node:url'
import {
  anyInputs,
  type BuildSource,
  type EffectiveFile,
  type FileJob,
  type FileService,
  type WebProcess,
  type Worker,
} from './effective.ts'
import { filesOf } from './files.ts'
import type { AppFile } from './schema.ts'

/** Returns the file with the schema's defaults for keys that it leaves out. */
export function effectiveFile(file: AppFile): EffectiveFile {
  const web = file.processes?.web ?? {}
  return {
    app: file.app,
    ...(file.project === undefined ? {} : { project: file.project }),
    domains: (file.domains ?? []).map(domain => domainToASCII(domain) || domain),
    build: sourceOf(file.build ?? {}),
    ...inputsOf(file.build ?? {}),
    ...(file.release ? { release: { command: file.release.command } } : {}),
    // Copies `env`, because objects of the TOML parser have no prototype.
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
    ...(file.env_groups ? { envGroups: file.env_groups } : {}),
    ...(file.files && file.files.length > 0 ? { files: filesOf(file) } : {}),
    ...(file.jobs ? { jobs: jobsOf(file.jobs) } : {}),
    ...(file.services ? { services: servicesOf(file.services) } : {}),
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

const servicesOf = (services: NonNullable<AppFile['services']>): Record<string, FileService> =>
  Object.fromEntries(Object.entries(services).map(([name, { port, tls }]) => [name, { port, tls: tls ?? 'none' }]))

type Web = NonNullable<NonNullable<AppFile['processes']>['web']>

function canaryOf({ canary }: Web): Pick<WebProcess, 'canary'> {
  if (!canary) return {}
  const { percent, seconds = 300, max_error_percent = 5, min_requests = 20 } = canary
  return { canary: { percent, seconds, max_error_percent, min_requests } }
}

/** Copies the labels, because objects of the TOML parser have no prototype. */
function hostsOf({ hosts }: Web): Pick<Worker, 'hosts'> {
  const require = Object.fromEntries(Object.entries(hosts?.require ?? {}))
  const prefer = Object.fromEntries(Object.entries(hosts?.prefer ?? {}))
  return Object.keys({ ...require, ...prefer }).length === 0 ? {} : { hosts: { require, prefer } }
}

function workerOf(process: Web): Worker {
  const { autoscaling } = process
  const sizes = {
    command: process.command ?? [],
    vcpus: process.vcpus ?? 1,
    memory_mib: process.memory_mib ?? 512,
    disk_mib: process.disk_mib ?? 1024,
    replicas: process.replicas ?? 1,
    ...(process.strategy === 'one-at-a-time' ? { strategy: process.strategy } : {}),
    ...hostsOf(process),
    ...(process.restart === undefined || process.restart === 'always' ? {} : { restart: process.restart }),
    ...(process.max_restarts === undefined ? {} : { max_restarts: process.max_restarts }),
  }
  if (!autoscaling) return sizes
  const { max_replicas, cpu_percent = 80, memory_percent = 80 } = autoscaling
  return { ...sizes, autoscaling: { max_replicas, cpu_percent, memory_percent } }
}

function inputsOf(build: NonNullable<AppFile['build']>): Pick<EffectiveFile, 'inputs'> {
  const { dockerfile = '', args = {}, env = [], secrets = [] } = build
  // Copies the build arguments, because objects of the TOML parser have no prototype.
  const inputs = anyInputs({ dockerfile, args: Object.fromEntries(Object.entries(args)), env, secrets })
  return inputs ? { inputs } : {}
}

function sourceOf(build: NonNullable<AppFile['build']>): BuildSource {
  if (build.image !== undefined) return { image: build.image }
  if (build.repository === undefined) return { root: build.root ?? '.' }
  return { repository: build.repository, branch: build.branch ?? '', submodules: build.submodules ?? false }
}

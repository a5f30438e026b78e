/** Rules for `mote.toml` that concern more than one key. */
import { scheduleFault } from '../lib/cron.ts'
import type { FieldFault } from '../lib/faults.ts'
import { workerApp } from './effective.ts'
import { brokenFiles } from './files.ts'
import type { AppFile } from './schema.ts'

/**
 * Returns an error for each rule that the file breaks. The field of an error is a path with slashes, such as
 * `volumes/0/name`.
 */
export const brokenRules = (file: AppFile): FieldFault[] => [
  ...ofBuild(file.build ?? {}),
  ...Object.entries(file.processes ?? {}).flatMap(([name, process]) => ofScale(name, process ?? {})),
  ...ofStrategy(file),
  ...ofWorkers(file),
  ...brokenFiles(file),
  ...ofVolumes(file),
  ...ofJobs(file),
  ...(file.env && Object.hasOwn(file.env, 'PORT')
    ? [{ field: 'env/PORT', message: 'is set by the platform; set processes.web.port instead' }]
    : []),
]

function ofBuild(build: NonNullable<AppFile['build']>): FieldFault[] {
  const sources = (['image', 'repository', 'root'] as const).filter(name => build[name] !== undefined)
  const faults: FieldFault[] = sources
    .slice(1)
    .map(name => ({ field: `build/${name}`, message: `cannot be combined with ${sources[0]}; leave one of them out` }))
  for (const name of ['branch', 'submodules'] as const)
    if (build[name] !== undefined && build.repository === undefined)
      faults.push({ field: `build/${name}`, message: 'needs a repository' })
  for (const name of ['dockerfile', 'args', 'env', 'secrets'] as const)
    if (build[name] !== undefined && build.image !== undefined)
      faults.push({ field: `build/${name}`, message: 'cannot be combined with image, which is not built' })
  faults.push(...ofInputs(build))
  const isOutside = build.root !== undefined && /^\/|^[A-Za-z]:|(^|[/\\])\.\.([/\\]|$)/.test(build.root)
  if (isOutside) faults.push({ field: 'build/root', message: 'must be below the folder of the file, such as apps/web' })
  return faults
}

function ofInputs({ dockerfile, args = {}, env = [], secrets = [] }: NonNullable<AppFile['build']>): FieldFault[] {
  const faults: FieldFault[] = []
  if (dockerfile !== undefined && dockerfile.split('/').some(part => part === '' || part === '.' || part === '..'))
    faults.push({ field: 'build/dockerfile', message: 'must be a path in the source, such as docker/web.Dockerfile' })
  const isGiven = (name: string) => Object.hasOwn(args, name)
  for (const [at, name] of env.entries())
    if (isGiven(name)) faults.push({ field: `build/env/${at}`, message: `${name} is in build.args too` })
  for (const [at, name] of secrets.entries())
    if (isGiven(name) || env.includes(name))
      faults.push({
        field: `build/secrets/${at}`,
        message: `${name} is in ${isGiven(name) ? 'build.args' : 'build.env'} too`,
      })
  return faults
}

function ofWorkers({ app, processes = {} }: AppFile): FieldFault[] {
  return Object.entries(processes).flatMap(([name, process]) => {
    if (name === 'web') return []
    const field = `processes/${name}`
    const long = app.length + name.length > 39
    return [
      ...(long || name.includes('--')
        ? [
            {
              field,
              message: `becomes the app ${workerApp(app, name)}, whose name must have at most 40 characters and no "--"`,
            },
          ]
        : []),
      ...(process?.command?.length === 0 ? [{ field: `${field}/command`, message: 'must have a program' }] : []),
    ]
  })
}

function ofScale(name: string, process: NonNullable<NonNullable<AppFile['processes']>['web']>): FieldFault[] {
  const { autoscaling, replicas = 1, scale_to_zero: sleeps = false } = process
  if (!autoscaling) return []
  if (autoscaling.max_replicas < replicas)
    return [{ field: `processes/${name}/autoscaling/max_replicas`, message: `must be at least replicas (${replicas})` }]
  if (sleeps && replicas > 1)
    return [{ field: `processes/${name}/replicas`, message: 'must be 1 with scale_to_zero and autoscaling' }]
  return []
}

function ofJobs({ jobs = {} }: AppFile): FieldFault[] {
  return Object.entries(jobs).flatMap(([name, { schedule, time_zone: timeZone = 'UTC' }]) => {
    const fault = scheduleFault(schedule, timeZone)
    return fault ? [{ field: `jobs/${name}/${fault.field}`, message: fault.message }] : []
  })
}

/** A canary needs the active version next to it. The strategy `one-at-a-time` stops VMs of the active version first. */
function ofStrategy({ processes }: AppFile): FieldFault[] {
  if (processes?.web?.strategy !== 'one-at-a-time' || !processes.web.canary) return []
  return [{ field: 'processes/web/strategy', message: 'cannot be one-at-a-time with a canary; leave one of them out' }]
}

function ofVolumes({ volumes = [], processes }: AppFile): FieldFault[] {
  const faults: FieldFault[] = []
  const web = processes?.web
  const most = web?.autoscaling?.max_replicas ?? web?.replicas ?? 1
  for (const [at, { name, mount = '/data', read_only: isReadOnly = false }] of volumes.entries()) {
    const before = volumes.slice(0, at)
    if (before.some(other => other.name === name))
      faults.push({ field: `volumes/${at}/name`, message: `${name} is in the file twice` })
    if (before.some(other => (other.mount ?? '/data') === mount))
      faults.push({ field: `volumes/${at}/mount`, message: `another volume is mounted at ${mount}` })
    if (!isReadOnly && most > 1)
      faults.push({
        field: `volumes/${at}/name`,
        message: `only one VM can use a writable volume, but up to ${most} run: set read_only or one replica`,
      })
  }
  return faults
}

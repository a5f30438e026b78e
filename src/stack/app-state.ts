/**
 * Reads the current settings and deployments of an app from the API, in the form in which `mote.toml` is compared with
 * them.
 */
import {
  anyInputs,
  type BuildSource,
  type EffectiveFile,
  type FileJob,
  type FileVolume,
  type WebProcess,
  type Worker,
  workerApp,
} from '../appfile/effective.ts'
import type { GivenFile } from '../appfile/files.ts'
import type { AppState } from '../appfile/plan.ts'
import { type App, type AppFile, type Build, type Client, type Deployment, everyItem } from '../client/index.ts'

type Sizes = Pick<WebProcess, 'vcpus' | 'memory_mib' | 'disk_mib'>

/** The deployment that an app runs now. */
interface Active extends Sizes {
  readonly createdAt: string
  readonly image: string
  readonly build: Build | undefined
}

/**
 * Returns the state of the app that the file describes.
 * @param file the values in it are used for what the API does not have: the folder of an upload, and sizes before the
 * first deployment
 * @param mayEnd whether, if no deployment is active, the latest completed one counts as active, as for tasks
 * @returns undefined if the app does not exist
 */
export async function readState(client: Client, file: EffectiveFile, mayEnd = false): Promise<AppState | undefined> {
  const app_name = file.app
  const app = await client.getApp({ app_name }).catch((cause: unknown) => {
    if (cause instanceof Error && Reflect.get(cause, 'status') === 404) return undefined
    throw cause
  })
  if (!app) return undefined
  const [env, appVolumes, volumes, domains, active, workers, jobs, files, services, groups] = await Promise.all([
    Array.fromAsync(everyItem(query => client.listAppEnv({ app_name, query }))),
    Array.fromAsync(everyItem(query => client.listAppVolumes({ app_id: app.id, query }))),
    Array.fromAsync(everyItem(query => client.listVolumes({ query }))),
    Array.fromAsync(everyItem(query => client.listDomains({ app_name, query }))),
    activeOf(client, app, mayEnd),
    workersOf(client, app),
    Array.fromAsync(everyItem(query => client.listJobs({ app_name, query }))),
    Array.fromAsync(everyItem(query => client.listAppFiles({ app_name, query }))),
    servicesOf(client, app_name),
    Array.fromAsync(everyItem(query => client.listAppEnvGroups({ app_name, query }))),
  ])
  const attached = groups.map(({ name }) => name)
  const plain = env.flatMap(({ name, value }) => (value === null ? [] : [[name, value] as const]))
  return {
    file: {
      app: app.name,
      ...(file.project === undefined ? {} : { project: file.project }),
      domains: domains.map(({ name }) => name),
      build: sourceOf(app, active, file.build),
      ...inputsOf(app),
      ...(app.release_command ? { release: { command: app.release_command } } : {}),
      env: Object.fromEntries(plain),
      ...(attached.length > 0 ? { envGroups: attached } : {}),
      processes: { web: webOf(app, active ?? file.processes.web) },
      workers: Object.fromEntries(
        workers.map(({ name, app: worker, active: deployed }) => [
          name,
          workerOf(worker, deployed ?? file.workers[name] ?? smallest),
        ]),
      ),
      volumes: appVolumes.map(volumeOf),
      ...(files.length > 0 ? { files: files.map(fileOf) } : {}),
      jobs: Object.fromEntries(jobs.map(job => [job.name, jobOf(job)])),
      services: Object.fromEntries(
        services.map(({ name, port, tls }) => [name, { port, tls: tls === 'sni' ? 'sni' : 'none' }]),
      ),
    },
    secrets: env.filter(({ secret }) => secret).map(({ name }) => name),
    groupVariables: await variablesOfGroups(client, file.envGroups ?? attached),
    volumeSizes: new Map(volumes.map(({ name, size_mib }) => [name, size_mib])),
    isDeployed: active !== undefined,
    isBehind: active !== undefined && (app.settings_changed_at ?? '') > active.createdAt,
    uploaded: active?.build?.source ?? undefined,
    staleWorkers: workers
      .filter(worker => {
        const changedAt = [app.settings_changed_at, worker.app.settings_changed_at].map(at => at ?? '')
        const deployed = worker.active
        return deployed?.image !== active?.image || changedAt.some(at => at > (deployed?.createdAt ?? ''))
      })
      .map(({ name }) => name),
  }
}

/** Returns the variables of environment groups. @throws Error if a group does not exist */
async function variablesOfGroups(
  client: Client,
  groups: readonly string[],
): Promise<NonNullable<AppState['groupVariables']>> {
  const all = await Promise.all(
    groups.map(group_name =>
      Array.fromAsync(everyItem(query => client.listEnvGroupVariables({ group_name, query }))).catch(
        (cause: unknown) => {
          if (!(cause instanceof Error) || Reflect.get(cause, 'status') !== 404) throw cause
          throw new Error(
            `env_groups: there is no environment group ${group_name}. Create it: mote env-groups create`,
            {
              cause,
            },
          )
        },
      ),
    ),
  )
  // If several groups have a variable, the value of the last group is used.
  return [...new Map(all.flat().map(one => [one.name, one])).values()].map(({ name, secret }) => ({
    name,
    isSecret: secret,
  }))
}

interface WorkerState {
  readonly name: string
  readonly app: App
  readonly active: Active | undefined
}

/** Returns the app's worker processes: apps that use its environment and whose names begin with the app's name. */
async function workersOf(client: Client, { name: main }: App): Promise<WorkerState[]> {
  const apps = await Array.fromAsync(everyItem(query => client.listApps({ query })))
  const own = apps.filter(app => app.env_of === main && app.name.startsWith(workerApp(main, '')))
  return Promise.all(
    own.map(async app => ({
      name: app.name.slice(workerApp(main, '').length),
      app,
      active: await activeOf(client, app),
    })),
  )
}

const smallest: Sizes = { vcpus: 1, memory_mib: 512, disk_mib: 1024 }

async function activeOf(client: Client, app: App, mayEnd = false): Promise<Active | undefined> {
  const { name: app_name, active_deployment_id: id } = app
  if (!id && !mayEnd) return undefined
  const found = await firstOf(
    everyItem(query => client.listDeployments({ app_name, query })),
    one => (id ? one.id === id : one.status === 'stopped'),
  )
  if (!found) return undefined
  const [{ image }, build] = await Promise.all([
    client.getDeployment({ app_name, job_id: found.job_id }),
    found.build_id === ''
      ? undefined
      : firstOf(
          everyItem(query => client.listBuilds({ app_name, query })),
          one => one.deployment_id === found.id,
        ),
  ])
  return { createdAt: found.created_at, image, build, ...sizesOf(found) }
}

async function firstOf<T>(items: AsyncIterable<T>, fits: (item: T) => boolean): Promise<T | undefined> {
  for await (const item of items) if (fits(item)) return item
  return undefined
}

/** Narrows the types of the sizes: the API only returns these values. */
const sizesOf = ({ vcpus, memory_mib, disk_mib }: Deployment): Sizes => ({
  vcpus: vcpus as Sizes['vcpus'],
  memory_mib: memory_mib as Sizes['memory_mib'],
  disk_mib,
})

function sourceOf(app: App, active: Active | undefined, given: BuildSource): BuildSource {
  const { git_url: repository, git_branch: branch, git_submodules: submodules } = app
  if (repository !== '') return { repository, branch, submodules }
  if (active?.build) return 'root' in given ? given : { root: '.' }
  if (active) return { image: active.image }
  return 'repository' in given ? { root: '.' } : given
}

function inputsOf({ build }: App): Pick<EffectiveFile, 'inputs'> {
  const inputs = anyInputs(build)
  return inputs ? { inputs } : {}
}

const webOf = (app: App, sizes: Sizes): WebProcess => ({
  ...workerOf(app, sizes),
  port: app.port,
  scale_to_zero: app.min_replicas === 0,
  drain_seconds: app.drain_timeout,
  ...(app.canary ? { canary: app.canary } : {}),
  health: { path: app.health_check_path },
})

const hostsOf = ({ hosts }: App): Pick<Worker, 'hosts'> =>
  Object.keys({ ...hosts.require, ...hosts.prefer }).length === 0 ? {} : { hosts }

function workerOf(app: App, { vcpus, memory_mib, disk_mib }: Sizes): Worker {
  const { command, min_replicas: min, autoscaling_enabled: isAutomatic } = app
  const replicas = isAutomatic ? Math.max(min, 1) : app.desired_replicas
  const worker = {
    command,
    ...(app.arguments.length > 0 ? { arguments: app.arguments } : {}),
    vcpus,
    memory_mib,
    disk_mib,
    replicas,
    ...hostsOf(app),
    ...(app.strategy === 'rolling' ? {} : { strategy: app.strategy }),
    ...(app.restart.policy === 'always' ? {} : { restart: app.restart.policy }),
    ...(app.restart.max_restarts === null ? {} : { max_restarts: app.restart.max_restarts }),
  }
  if (!isAutomatic) return worker
  const { max_replicas, cpu_threshold: cpu_percent, mem_threshold: memory_percent } = app
  return { ...worker, autoscaling: { max_replicas, cpu_percent, memory_percent } }
}

/**
 * Returns the app's TCP services; empty if the control plane is of an earlier release, whose API does not have them.
 */
async function servicesOf(client: Client, app_name: string) {
  try {
    return await client.listTcpServices({ app_name })
  } catch (cause) {
    if (cause instanceof Error && Reflect.get(cause, 'status') === 404) return []
    throw cause
  }
}

const jobOf = ({ schedule, command, time_zone, overlap, retries, timeout_seconds }: FileJob): FileJob => ({
  schedule,
  command,
  time_zone,
  overlap,
  retries,
  timeout_seconds,
})

const fileOf = ({ path, mode, variable, sha256 }: AppFile): GivenFile => ({
  path,
  mode,
  ...(variable === null ? {} : { variable }),
  ...(sha256 === null ? {} : { sha256 }),
  ...(variable === null && sha256 === null ? { isSecret: true } : {}),
})

const volumeOf = (volume: {
  readonly name: string
  readonly mount_point: string
  readonly size_mib: number
  readonly access_mode: number
}): FileVolume => ({
  name: volume.name,
  mount: volume.mount_point,
  size_mib: volume.size_mib,
  read_only: volume.access_mode === 1,
})

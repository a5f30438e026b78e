/** Carries out a plan with one step per change. Every step may be repeated, so that a failed run can be continued. */
import { type EffectiveFile, type FileVolume, type WebProcess, type Worker, workerApp } from '../appfile/effective.ts'
import type { Change, Plan } from '../appfile/plan.ts'
import type { App, AppBuildRequest, CreateAppRequest, ScaleAppRequest, UpdateAppRequest } from '../client/index.ts'
import { waitMs } from '../client/wait.ts'
import type { Context } from './context.ts'

interface Step {
  readonly what: string
  run(): Promise<unknown>
}

type Reach = Pick<Context, 'client' | 'signal'>

/**
 * Carries out the changes of the app itself.
 * @param again the command with which the user continues after a failure
 * @throws Error naming the steps that were done and those that were not
 */
export const converge = (context: Context, file: EffectiveFile, plan: Plan, again = 'mote deploy'): Promise<void> =>
  perform(context, stepsOf(context, file, plan), again)

/** Carries out the changes of worker processes. The app must exist. @throws Error like `converge` */
export const convergeWorkers = (context: Context, file: EffectiveFile, { changes }: Plan): Promise<void> =>
  perform(
    context,
    [
      ...Object.entries(file.workers).flatMap(([name, worker]) =>
        workerSteps(context, file.app, name, worker, changes),
      ),
      ...changes.flatMap(({ kind, key }) => {
        const name = /^processes\.([^.]+)$/.exec(key)?.[1]
        if (kind !== 'remove' || name === undefined) return []
        return [step(key, () => context.client.deleteApp({ app_name: workerApp(file.app, name) }))]
      }),
    ],
    'mote deploy',
  )

async function perform(context: Context, steps: readonly Step[], again: string): Promise<void> {
  for (const [at, step] of steps.entries()) {
    context.signal.throwIfAborted()
    try {
      await context.step(step.what, () => step.run())
    } catch (cause) {
      const reason = context.explain(cause)
      if (context.signal.aborted || !(reason instanceof Error)) throw reason
      throw new Error(halfway(steps, at, reason.message, again), { cause })
    }
  }
}

function halfway(steps: readonly Step[], at: number, reason: string, again: string): string {
  const names = (some: readonly Step[]) => some.map(({ what }) => what).join(', ') || 'nothing'
  return [
    `${steps[at]?.what} failed: ${reason}`,
    `  done: ${names(steps.slice(0, at))}`,
    `  not done: ${names(steps.slice(at))}, the deployment`,
    `  Fix the reason, then run ${again} again: it continues from here.`,
  ].join('\n')
}

/**
 * Returns the steps in an order in which the app is valid after each: volumes are detached before the app is scaled,
 * because only one VM can use a writable volume, and attached afterwards.
 */
function stepsOf(context: Reach, file: EffectiveFile, { changes }: Plan): Step[] {
  const below = (path: string) => changes.filter(({ key }) => key === path || key.startsWith(`${path}.`))
  const isNew = below('app').length > 0
  const web = below('processes.web').map(({ key }) => key.replace('processes.web.', ''))
  const settings =
    web.some(key => ['command', 'arguments', 'port', 'drain_seconds', 'health.path'].includes(key) || isPolicy(key)) ||
    web.some(key => key.startsWith('canary.')) ||
    below('build').length > 0 ||
    below('release').length > 0
  const scale = web.some(key => /^(replicas|scale_to_zero|autoscaling\..*)$/.test(key))
  const { client } = context
  const app_name = file.app
  const volumes = below('volumes')
  return [
    ...(isNew ? [step('app', () => client.createApp({ body: newApp(file) }))] : []),
    ...(!isNew && settings ? [step('settings', () => client.updateApp({ app_name, body: settingsOf(file) }))] : []),
    ...below('env_groups').map(() =>
      step('env_groups', () => client.setAppEnvGroups({ app_name, body: { groups: [...(file.envGroups ?? [])] } })),
    ),
    ...below('env').map(change => variable(context, file, change)),
    ...below('files').map(change => givenFile(context, file, change)),
    ...volumes
      .filter(({ kind }) => kind === 'remove')
      .map(change => step(change.key, () => detach(context, app_name, nameIn(change)))),
    ...(!isNew && scale ? [step('scale', () => rescale(context, app_name, file.processes.web))] : []),
    ...file.volumes
      .filter(({ name }) => volumes.some(({ kind, key }) => kind !== 'remove' && isOf(key, name)))
      .map(volume => step(`volumes.${volume.name}`, () => provide(context, app_name, volume))),
    ...below('domains').map(change => domain(context, app_name, change)),
    ...jobSteps(context, file, below('jobs')),
    ...below('services').map(change => service(context, file, change)),
  ]
}

/** Returns one step per job. A paused job stays paused. */
function jobSteps({ client }: Reach, { app: app_name, jobs = {} }: EffectiveFile, changes: readonly Change[]): Step[] {
  const names = new Set(changes.map(({ key }) => key.split('.')[1] ?? ''))
  return [...names].map(job_name =>
    step(`jobs.${job_name}`, async () => {
      const job = jobs[job_name]
      if (!job) return client.deleteJob({ app_name, job_name })
      const known = await client.listJobs({ app_name })
      const paused = known.some(one => one.name === job_name && one.paused)
      return client.putJob({ app_name, job_name, body: { ...job, command: [...job.command], paused } })
    }),
  )
}

const step = (what: string, run: () => Promise<unknown>): Step => ({ what, run })
const nameIn = ({ key }: Change) => key.slice(key.indexOf('.') + 1)
/**
 * Returns whether a changed key belongs to the volume. Compares whole keys, because names of volumes may contain dots.
 */
const isOf = (key: string, volume: string) =>
  [`volumes.${volume}`, ...['mount', 'size_mib', 'read_only'].map(name => `volumes.${volume}.${name}`)].includes(key)

function variable({ client }: Reach, { app: app_name, secrets = [] }: EffectiveFile, change: Change): Step {
  const name = nameIn(change)
  const isSecret = secrets.includes(name)
  return step(change.key, () =>
    change.kind === 'remove'
      ? client.deleteAppEnv({ app_name, name })
      : client.putAppEnv({ app_name, name, body: { value: String(change.to), secret: isSecret } }),
  )
}

function givenFile({ client }: Reach, { app: app_name, files = [] }: EffectiveFile, change: Change): Step {
  const path = nameIn(change)
  const file = files.find(one => one.path === path)
  return step(change.key, () => {
    if (change.kind === 'remove' || !file) return client.deleteAppFile({ app_name, query: { path } })
    const { mode, variable, content, isSecret } = file
    const body =
      variable === undefined
        ? { path, mode, content: base64Of(content), secret: isSecret === true }
        : { path, mode, variable }
    return client.putAppFile({ app_name, body })
  })
}

/** Encodes bytes in base64. Works in Node.js and in browsers. */
function base64Of(content: Uint8Array | undefined): string {
  let text = ''
  for (const byte of content ?? []) text += String.fromCharCode(byte)
  return btoa(text)
}

function service({ client }: Reach, { app: app_name, services = {} }: EffectiveFile, change: Change): Step {
  const service_name = nameIn(change)
  const wanted = services[service_name]
  // Send the field `tls` only if necessary, because earlier releases do not have it.
  const tls = wanted?.tls === 'sni' || String(change.from).endsWith('(tls sni)') ? { tls: wanted?.tls } : {}
  return step(change.key, () =>
    wanted
      ? client.putTcpService({ app_name, service_name, body: { port: wanted.port, ...tls } })
      : client.deleteTcpService({ app_name, service_name }),
  )
}

function domain({ client }: Reach, app_name: string, change: Change): Step {
  const name = nameIn(change)
  return step(change.key, () =>
    change.kind === 'remove'
      ? client.deleteDomain({ app_name, domain: name })
      : client.addDomain({ app_name, body: { name } }),
  )
}

const repositoryOf = ({ build }: EffectiveFile) =>
  'repository' in build
    ? { git_url: build.repository, git_branch: build.branch, git_submodules: build.submodules }
    : { git_url: '' }

const settingsOf = (file: EffectiveFile): UpdateAppRequest => {
  const { port, health, drain_seconds, canary, command, arguments: given = [] } = file.processes.web
  return {
    port,
    command,
    arguments: given,
    health_check_path: health.path,
    drain_timeout: drain_seconds,
    canary: canary ?? { percent: 0 },
    ...policiesOf(file.processes.web),
    build: inputsOf(file),
    ...repositoryOf(file),
    release_command: file.release?.command ?? [],
  }
}

const inputsOf = ({ inputs }: EffectiveFile): AppBuildRequest => ({
  dockerfile: inputs?.dockerfile ?? '',
  args: inputs?.args ?? {},
  env: inputs ? [...inputs.env] : [],
  secrets: inputs ? [...inputs.secrets] : [],
})

/** Returns whether `policiesOf` returns the value of this key of a process. */
const isPolicy = (key: string) => ['strategy', 'restart', 'max_restarts'].includes(key) || key.startsWith('hosts.')
const policiesOf = ({ strategy, hosts, restart, max_restarts }: Worker) => ({
  strategy: strategy ?? ('rolling' as const),
  hosts: { require: { ...hosts?.require }, prefer: { ...hosts?.prefer } },
  restart: { policy: restart ?? ('always' as const), max_restarts: max_restarts ?? null },
})

export const newApp = (file: EffectiveFile): CreateAppRequest => ({
  name: file.app,
  ...settingsOf(file),
  ...repositoryOf(file),
  ...scaleOf(file.processes.web, 1),
  ...(file.kind ? { kind: file.kind } : {}),
  ...(file.stack === undefined ? {} : { stack: file.stack }),
})

/** Returns the request that sets replicas and autoscaling. With autoscaling, the number of VMs is kept if possible. */
function scaleOf(process: Worker & Partial<WebProcess>, desired: number): ScaleAppRequest {
  const { replicas, scale_to_zero: sleeps = false, autoscaling } = process
  const min_replicas = sleeps ? 0 : replicas
  if (!autoscaling) {
    return { autoscaling_enabled: false, min_replicas, max_replicas: replicas, desired_replicas: replicas }
  }
  return {
    autoscaling_enabled: true,
    min_replicas,
    max_replicas: autoscaling.max_replicas,
    desired_replicas: Math.min(Math.max(desired, replicas), autoscaling.max_replicas),
    cpu_threshold: autoscaling.cpu_percent,
    mem_threshold: autoscaling.memory_percent,
  }
}

async function rescale({ client }: Reach, app_name: string, process: Worker): Promise<App> {
  const { desired_replicas: desired } = await client.getApp({ app_name })
  return client.scaleApp({ app_name, body: scaleOf(process, desired) })
}

/** Returns the steps for one worker, which is created if it is missing: an interrupted run can be repeated. */
function workerSteps(context: Reach, main: string, name: string, worker: Worker, changes: readonly Change[]): Step[] {
  const path = `processes.${name}`
  const keys = changes.filter(({ key }) => key.startsWith(`${path}.`)).map(({ key }) => key.slice(path.length + 1))
  if (keys.length === 0) return []
  const { client } = context
  const app_name = workerApp(main, name)
  const { command } = worker
  if (changes.some(({ kind, key }) => kind === 'create' && key === `${path}.vcpus`)) {
    const own = { name: app_name, git_url: '', kind: 'worker', env_of: main, command } as const
    const body = { ...own, ...scaleOf(worker, 1), ...policiesOf(worker) }
    return [step(path, () => client.createApp({ body }))]
  }
  const change = async () => {
    const { port } = await client.getApp({ app_name })
    return client.updateApp({ app_name, body: { port, command, ...policiesOf(worker) } })
  }
  return [
    ...(keys.some(key => key === 'command' || isPolicy(key)) ? [step(path, change)] : []),
    ...(keys.some(key => /^(replicas|autoscaling\..*)$/.test(key))
      ? [step(`${path}.replicas`, () => rescale(context, app_name, worker))]
      : []),
  ]
}

/** Creates or grows the volume if necessary, and attaches it to the app. */
async function provide(context: Reach, app_name: string, volume: FileVolume): Promise<void> {
  const { client } = context
  const { id: app_id } = await client.getApp({ app_name })
  const { name, size_mib } = volume
  const [found] = await client.listVolumes({ query: { name } })
  if (found && found.size_mib < size_mib) await client.updateVolume({ volume_id: found.id, body: { size_mib } })
  const { id: volume_id } = found ?? (await client.createVolume({ body: { name, size_mib } }))
  const access_mode = volume.read_only ? 1 : 0
  const [now] = await client.listAppVolumes({ app_id, query: { name } })
  if (now?.mount_point === volume.mount && now.access_mode === access_mode) return
  if (now) await detach(context, app_name, name)
  await client.attachVolume({ app_id, body: { volume_id, mount_point: volume.mount, access_mode } })
}

const detachMs = 60_000
const pollMs = 250

/** Detaches a volume, and waits until the VM has released it. @throws Error if a program uses it for too long */
export async function detach({ client, signal }: Reach, app_name: string, name: string): Promise<void> {
  const { id: app_id } = await client.getApp({ app_name })
  const [attached] = await client.listAppVolumes({ app_id, query: { name } })
  if (!attached) return
  await client.detachVolume({ app_id, volume_id: attached.id })
  const until = performance.now() + detachMs
  while ((await client.listAppVolumes({ app_id, query: { name } })).length > 0) {
    if (performance.now() > until)
      throw new Error(`A program in the VM still uses ${name}. Stop it, or deploy a version that does not use it.`)
    await waitMs(pollMs, signal)
    signal.throwIfAborted()
  }
}

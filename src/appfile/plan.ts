/** Compares `mote.toml` with the state of an app, and returns the necessary changes. Pure functions. */
import {
  type EffectiveFile,
  type FileJob,
  type FileVolume,
  flatInputs,
  flatProcess,
  sourceText,
  type Value,
  type Worker,
} from './effective.ts'
import { comparedFiles, flatFiles } from './files.ts'

export interface Change {
  readonly kind: 'create' | 'change' | 'remove'
  /** Path of the changed setting, such as `processes.web.port`, `env.LEVEL` or `volumes.data`. */
  readonly key: string
  readonly from?: Value
  readonly to?: Value
}

/** The state of an app in an installation. */
export interface AppState {
  /** The app's settings as a file. Before the first deployment, sizes and source are those of `mote.toml`. */
  readonly file: EffectiveFile
  /** Names of secret variables, whose values cannot be read. */
  readonly secrets: readonly string[]
  /** Variables of the environment groups in `mote.toml` or, if it has none, of the groups of the app. */
  readonly groupVariables?: readonly { readonly name: string; readonly isSecret: boolean }[]
  /** Size in MiB of each volume in the project, by name. */
  readonly volumeSizes: ReadonlyMap<string, number>
  /** Whether the app has an active deployment, even if the app is asleep. */
  readonly isDeployed: boolean
  /** Whether settings were changed after the active deployment was created. */
  readonly isBehind: boolean
  /** Id of the uploaded source from which the active deployment was built. */
  readonly uploaded: string | undefined
  /** Workers without an active deployment, or whose active one has another image than the app, or older settings. */
  readonly staleWorkers: readonly string[]
}

export interface Plan {
  readonly app: string
  readonly changes: readonly Change[]
  /** Reasons for deploying a new version; empty: no new version is deployed. */
  readonly deploys: readonly string[]
  /** Names of the workers that get a new version after the app. */
  readonly workers: readonly string[]
}

export interface PlanOptions {
  /** Id of the uploaded folder; absent if it was not uploaded. */
  readonly uploaded?: string | undefined
  /** The flag with which the user requested a new version, such as `--force`. */
  readonly asked?: string | undefined
}

/**
 * Returns the changes after which the installation matches the file.
 * @param state undefined if the app does not exist
 * @throws Error if something in the file is not possible for this app
 */
export function planOf(file: EffectiveFile, state: AppState | undefined, options: PlanOptions): Plan {
  refuseUnknown(file, state)
  const changes = state ? changesOf(file, state) : creationOf(file)
  const deploys = reasonsOf(file, state, changes, options)
  const workers = Object.keys(file.workers).filter(
    name => deploys.length > 0 || state?.staleWorkers.includes(name) || changes.some(needsVersion(`processes.${name}`)),
  )
  return { app: file.app, changes, deploys, workers }
}

function creationOf(file: EffectiveFile): Change[] {
  return [
    { kind: 'create', key: 'app', to: file.app },
    created('build', sourceText(file.build)),
    ...differences('build', new Map(), flatInputs(file.inputs)),
    ...differences('release', new Map(), flatRelease(file)),
    ...[...flatProcess(file.processes.web)].map(([name, to]) => created(`processes.web.${name}`, to)),
    ...workerChanges({}, file.workers),
    ...groupChanges(file.envGroups, []),
    ...Object.entries(file.env).map(([name, to]) => created(`env.${name}`, to)),
    ...differences('files', new Map(), flatFiles(file.files)),
    ...file.volumes.map(volume => created(`volumes.${volume.name}`, volumeText(volume))),
    ...jobChanges({}, file.jobs ?? {}),
    ...serviceChanges({}, file.services),
    ...file.domains.map(domain => created(`domains.${domain}`, domain)),
  ]
}

const created = (key: string, to: Value): Change => ({ kind: 'create', key, to })

function changesOf(file: EffectiveFile, { file: now, secrets, volumeSizes }: AppState): Change[] {
  refuseSecrets(file, secrets)
  refuseShrinking(file, volumeSizes)
  return [
    ...differences('', new Map([['build', sourceText(now.build)]]), new Map([['build', sourceText(file.build)]])),
    ...differences('build', flatInputs(now.inputs), flatInputs(file.inputs)),
    ...differences('release', flatRelease(now), flatRelease(file)),
    ...differences('processes.web', flatProcess(now.processes.web), flatProcess(file.processes.web)),
    ...workerChanges(now.workers, file.workers),
    ...groupChanges(file.envGroups, now.envGroups ?? []),
    ...differences('env', new Map(Object.entries(now.env)), new Map(Object.entries(file.env))),
    ...fileChanges(file, now),
    ...volumeChanges(now.volumes, file.volumes),
    ...(file.jobs ? jobChanges(now.jobs ?? {}, file.jobs) : []),
    ...serviceChanges(now.services, file.services),
    ...differences('domains', new Map(now.domains.map(twice)), new Map(file.domains.map(twice))),
  ]
}

function fileChanges(file: EffectiveFile, now: EffectiveFile): Change[] {
  const compared = comparedFiles(file.files, now.files)
  return differences('files', flatFiles(compared.now), flatFiles(compared.wanted))
}

/** If `mote.toml` does not mention environment groups, the app keeps its groups. */
const groupChanges = (wanted: readonly string[] | undefined, now: readonly string[]): Change[] =>
  wanted && !isSame(now, wanted) ? [{ kind: 'change', key: 'env_groups', from: now, to: wanted }] : []

const flatRelease = ({ release }: EffectiveFile): ReadonlyMap<string, Value> =>
  new Map(release ? [['command', release.command]] : [])
const twice = (name: string) => [name, name] as const

const isSame = (one: Value, other: Value) => JSON.stringify(one) === JSON.stringify(other)

/** Returns the differences of two sets of pairs: added and changed ones first, then removed ones. */
function differences(path: string, before: ReadonlyMap<string, Value>, after: ReadonlyMap<string, Value>): Change[] {
  const keyOf = (name: string) => (path === '' ? name : `${path}.${name}`)
  const given = [...after].flatMap(([name, to]): Change[] => {
    const from = before.get(name)
    if (from === undefined) return [created(keyOf(name), to)]
    return isSame(from, to) ? [] : [{ kind: 'change', key: keyOf(name), from, to }]
  })
  const removed = [...before].filter(([name]) => !after.has(name))
  return [...given, ...removed.map(([name, from]): Change => ({ kind: 'remove', key: keyOf(name), from }))]
}

const flatJob = (job: FileJob): ReadonlyMap<string, Value> => new Map<string, Value>(Object.entries(job))

function jobChanges(before: Readonly<Record<string, FileJob>>, after: Readonly<Record<string, FileJob>>): Change[] {
  const given = Object.entries(after).flatMap(([name, job]) => {
    const now = before[name]
    return now ? differences(`jobs.${name}`, flatJob(now), flatJob(job)) : [created(`jobs.${name}`, jobText(job))]
  })
  const removed = Object.keys(before).filter(name => !Object.hasOwn(after, name))
  return [
    ...given,
    ...removed.map((name): Change => ({ kind: 'remove', key: `jobs.${name}`, from: before[name]?.schedule ?? '' })),
  ]
}

const serviceChanges = (before: EffectiveFile['services'], after: EffectiveFile['services']): Change[] =>
  // An app can have only one service with TLS by server name, so the removed one must go before the new one is added.
  after
    ? differences('services', flatServices(before ?? {}), flatServices(after)).toSorted(
        (a, b) => Number(takesName(a)) - Number(takesName(b)),
      )
    : []

const takesName = (change: Change) => change.kind !== 'remove' && String(change.to).endsWith('(tls sni)')

const flatServices = (services: NonNullable<EffectiveFile['services']>): ReadonlyMap<string, Value> =>
  new Map<string, Value>(
    Object.entries(services).map(([name, { port, tls }]) => [name, tls === 'sni' ? `${port} (tls sni)` : port]),
  )

const jobText = ({ schedule, time_zone, command }: FileJob) => `${schedule} (${time_zone}): ${command.join(' ')}`

function workerChanges(before: Readonly<Record<string, Worker>>, after: Readonly<Record<string, Worker>>): Change[] {
  const given = Object.entries(after).flatMap(([name, worker]) => {
    const now = before[name]
    return differences(`processes.${name}`, now ? flatProcess(now) : new Map(), flatProcess(worker))
  })
  const removed = Object.keys(before).filter(name => !Object.hasOwn(after, name))
  return [...given, ...removed.map((name): Change => ({ kind: 'remove', key: `processes.${name}`, from: name }))]
}

function volumeChanges(before: readonly FileVolume[], after: readonly FileVolume[]): Change[] {
  const given = after.flatMap((volume): Change[] => {
    const now = before.find(one => one.name === volume.name)
    const path = `volumes.${volume.name}`
    if (!now) return [created(path, volumeText(volume))]
    return differences(path, flatVolume(now), flatVolume(volume))
  })
  const removed = before.filter(one => !after.some(volume => volume.name === one.name))
  return [...given, ...removed.map((one): Change => ({ kind: 'remove', key: `volumes.${one.name}`, from: one.mount }))]
}

const flatVolume = ({ mount, size_mib, read_only }: FileVolume): ReadonlyMap<string, Value> =>
  new Map(Object.entries({ mount, size_mib, read_only }))
const volumeText = ({ mount, size_mib: size, read_only: isReadOnly }: FileVolume) =>
  `${mount}, ${size} MiB${isReadOnly ? ', read-only' : ''}`

function refuseSecrets({ env }: EffectiveFile, secrets: readonly string[]): void {
  const both = secrets.filter(name => Object.hasOwn(env, name))
  if (both.length > 0)
    throw new Error(
      `${both.join(', ')} ${both.length > 1 ? 'are secrets' : 'is a secret'} of the app. Remove it from the file, or remove the secret: mote env unset ${both.join(' ')}`,
    )
}

/** Refuses a build or a file that needs a variable which the app does not have, because it would fail later. */
function refuseUnknown({ app, env, envGroups, inputs, files = [] }: EffectiveFile, state: AppState | undefined): void {
  // The groups of an app that does not exist yet are not read here; the API refuses a missing variable at the deploy.
  if (!state && envGroups && envGroups.length > 0) return
  const shared = state?.groupVariables ?? []
  const secrets = [...(state?.secrets ?? []), ...shared.flatMap(({ name, isSecret }) => (isSecret ? [name] : []))]
  const plain = shared.flatMap(({ name, isSecret }) => (isSecret ? [] : [name]))
  for (const name of inputs?.env ?? []) {
    if (Object.hasOwn(env, name) || (plain.includes(name) && !state?.secrets.includes(name))) continue
    if (secrets.includes(name))
      throw new Error(`build.env: ${name} is a secret, and arguments stay in the image. Move it to build.secrets.`)
    throw new Error(`build.env: there is no variable ${name}. Add it to [env], or remove it from build.env.`)
  }
  const create = state ? '' : `mote apps create ${app}, then `
  const named = [
    ...(inputs?.secrets ?? []).map(name => ['build.secrets', name] as const),
    ...files.flatMap(({ path, variable }) => (variable === undefined ? [] : [[`files (${path})`, variable] as const])),
  ]
  for (const [key, name] of named)
    if (!Object.hasOwn(env, name) && !secrets.includes(name) && !plain.includes(name))
      throw new Error(
        `${key}: the app has no variable ${name}. Set it: ${create}mote env set ${name}=- --app ${app} < file`,
      )
}

function refuseShrinking({ volumes }: EffectiveFile, sizes: ReadonlyMap<string, number>): void {
  for (const { name, size_mib: size } of volumes) {
    const now = sizes.get(name) ?? 0
    if (now > size)
      throw new Error(`The volume ${name} has ${now} MiB and cannot shrink. Set size_mib = ${now} in the file.`)
  }
}

/** Paths of settings whose changes apply to running VMs, without a new version. */
const live = [
  /^processes\.[^.]+\.(replicas|strategy|scale_to_zero|drain_seconds|autoscaling\..*|canary\..*)$/,
  /^domains\./,
  /^volumes\.[^/]+\.size_mib$/,
]

/** Returns a function that returns whether a change at or below the path needs a new version. */
const needsVersion = (path: string) => (change: Change) =>
  (change.key === path || change.key.startsWith(`${path}.`)) &&
  !(change.kind === 'remove' && (change.key.startsWith('volumes.') || change.key === path)) &&
  !live.some(pattern => pattern.test(change.key))

const partsOfApp = ['build', 'release', 'processes.web', 'env', 'env_groups', 'files', 'volumes']

function reasonsOf(
  file: EffectiveFile,
  state: AppState | undefined,
  changes: readonly Change[],
  { uploaded, asked }: PlanOptions,
): string[] {
  if (!state?.isDeployed) return ['the app has no version yet']
  const reasons: string[] = []
  if (partsOfApp.some(part => changes.some(needsVersion(part)))) reasons.push('the settings change')
  else if (state.isBehind) reasons.push('settings were changed after the active deployment')
  if ('repository' in file.build) reasons.push('a repository is built at its newest commit')
  if ('root' in file.build && uploaded !== undefined && uploaded !== state.uploaded) reasons.push('the folder changed')
  if (asked !== undefined) reasons.push(`${asked} is given`)
  return reasons
}

/** Whether the plan removes something, such as a variable or volume. Such a plan needs the consent of the user. */
export const removes = ({ changes }: Plan) =>
  changes.some(
    ({ kind, key, from, to }) =>
      (kind === 'remove' && !/^(processes\.[^.]+|release)\./.test(key)) ||
      (key === 'env_groups' && Array.isArray(from) && from.some(name => !(Array.isArray(to) && to.includes(name)))),
  )
export const isEmpty = ({ changes, deploys, workers }: Plan) =>
  changes.length === 0 && deploys.length === 0 && workers.length === 0

const signs = { create: '+', change: '~', remove: '-' } as const

/** Formats the plan as text with one line per change. */
export function planText(plan: Plan): string {
  if (isEmpty(plan)) return `No changes: ${plan.app} matches the file.`
  const width = Math.max(0, ...plan.changes.map(({ key }) => key.length))
  const lines = plan.changes.map(({ kind, key, from, to }) => {
    const what = kind === 'change' ? `${shown(from)} -> ${shown(to)}` : shown(kind === 'remove' ? from : to)
    return `  ${signs[kind]} ${key.padEnd(width)}  ${what}`
  })
  const [first] = plan.deploys
  const version =
    first === undefined ? 'The active deployment stays.' : `A new version is deployed: ${plan.deploys.join(', ')}.`
  const others = plan.workers.length > 0 ? [`New versions of workers: ${plan.workers.join(', ')}.`] : []
  return [`Plan for ${plan.app}:`, ...lines, version, ...others].join('\n')
}

const longestShown = 60
function shown(value: Value | undefined): string {
  const text = JSON.stringify(value ?? '')
  return text.length > longestShown ? `${text.slice(0, longestShown)}..."` : text
}

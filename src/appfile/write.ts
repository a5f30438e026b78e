/** Writes `mote.toml`: a new file, or the state of an app into an existing file. */
import { isDeepStrictEqual } from 'node:util'
import { stringify } from 'smol-toml'
import { effectiveFile } from './defaults.ts'
import {
  type EffectiveFile,
  type FileJob,
  type FileVolume,
  flatProcess,
  sourceText,
  type WebProcess,
  type Worker,
} from './effective.ts'
import { filesWith, type GivenFile } from './files.ts'
import { parseAppFile } from './parse.ts'
import type { AppFile } from './schema.ts'

/** Returns the text of a new file. @param apiUrl address of the installation, which serves the schema to editors */
export const newFileText = (file: AppFile, apiUrl: string): string =>
  [
    `#:schema ${apiUrl}/v1/api-docs/mote.schema.json`,
    '# "mote deploy" makes the app match this file. Secrets are not part of it: mote env set NAME=- < file',
    '',
    stringify(file),
  ].join('\n')

/** Returns the file with all defaults as text. */
export const effectiveText = ({
  workers,
  processes,
  build,
  inputs,
  envGroups,
  files = [],
  ...rest
}: EffectiveFile): string =>
  stringify({
    ...rest,
    ...(envGroups ? { env_groups: envGroups } : {}),
    ...(files.length > 0 ? { files: files.map(shownFile) } : {}),
    build: { ...build, ...inputs },
    processes: { ...processes, ...workers },
  })

const shownFile = ({ path, mode, source, variable }: GivenFile) => ({
  path,
  mode,
  ...(source === undefined ? {} : { source }),
  ...(variable === undefined ? {} : { secret: variable }),
})

export interface Pulled {
  readonly text: string
  /**
   * Whether the file was rewritten because it could not be edited in place. A rewritten file keeps only the comments at
   * its start.
   */
  readonly isRewritten: boolean
}

/** Returns the text of the file, changed to the state of the app. Keys whose values are the same keep their text. */
export async function pulledText(text: string, state: EffectiveFile): Promise<Pulled> {
  const given = parseAppFile(text)
  const file = withState(given, state)
  const { patch } = await import('@decimalturn/toml-patch')
  // A new table gets a header, down to [processes.web.autoscaling], instead of being written inline on one line.
  const edited = textSaying(file, () => {
    // The library cannot add the first table of an array, so `files` are appended as text.
    const { files, ...others } = file
    const isNew = files !== undefined && given.files === undefined
    const changed = patch(text, isNew ? others : file, { inlineTableStart: 3 })
    return isNew ? `${changed.replace(/(?<!\n)\n*$/, '\n\n')}${stringify({ files })}` : changed
  })
  if (edited !== undefined) return { text: edited, isRewritten: false }
  return { text: `${headOf(text)}${stringify(file)}`, isRewritten: true }
}

/**
 * Returns the edited text if it parses to the wanted file, otherwise undefined, because the library fails for some
 * documents.
 */
function textSaying(file: AppFile, edit: () => string): string | undefined {
  try {
    const edited = edit()
    return isDeepStrictEqual(effectiveFile(parseAppFile(edited)), effectiveFile(file)) ? edited : undefined
  } catch {
    return undefined
  }
}

/** Returns the comments at the start of the file. */
const headOf = (text: string) => /^(?:#.*\n|[ \t\r]*\n)*/.exec(text)?.[0] ?? ''

/** Returns the file with the values of the app's state. Keys with the same value are not changed. */
export function withState(file: AppFile, state: EffectiveFile): AppFile {
  const before = effectiveFile(file)
  const next = structuredClone(file)
  const isSameSource = sourceText(before.build) === sourceText(state.build)
  if (!isSameSource || !isDeepStrictEqual(before.inputs, state.inputs)) {
    const { dockerfile: _dockerfile, args: _args, env: _env, secrets: _secrets, ...source } = file.build ?? {}
    next.build = { ...(isSameSource ? source : buildOf(state)), ...givenInputs(state) }
  }
  if (!isDeepStrictEqual(before.release, state.release)) {
    delete next.release
    if (state.release) next.release = { command: [...state.release.command] }
  }
  if (!isDeepStrictEqual(before.env, state.env)) next.env = { ...state.env }
  if (!isDeepStrictEqual(before.domains.toSorted(), state.domains.toSorted())) next.domains = [...state.domains]
  const isSame =
    isDeepStrictEqual(before.processes, state.processes) && isDeepStrictEqual(before.workers, state.workers)
  if (!isSame) next.processes = processesWith(file, before, state)
  if (!isDeepStrictEqual(before.volumes, state.volumes))
    next.volumes = state.volumes.map(volume => volumeWith(file, before, volume))
  if (!isDeepStrictEqual(before.envGroups ?? [], state.envGroups ?? [])) next.env_groups = [...(state.envGroups ?? [])]
  const files = filesWith(file.files ?? [], state.files ?? [])
  if (!isDeepStrictEqual(file.files ?? [], files)) next.files = files
  const { jobs = {} } = state
  if (!isDeepStrictEqual(before.jobs ?? {}, jobs))
    next.jobs = Object.fromEntries(Object.entries(jobs).map(([name, job]) => [name, jobWith(file.jobs?.[name], job)]))
  const { services = {} } = state
  if (!isDeepStrictEqual(before.services ?? {}, services))
    next.services = Object.fromEntries(
      Object.entries(services).map(([name, { port, tls }]) => [name, { port, ...(tls === 'sni' ? { tls } : {}) }]),
    )
  return next
}

type Web = NonNullable<NonNullable<AppFile['processes']>['web']>
type Volume = NonNullable<AppFile['volumes']>[number]

function buildOf({ build }: EffectiveFile): NonNullable<AppFile['build']> {
  if (!('repository' in build)) return build
  return {
    repository: build.repository,
    ...(build.branch === '' ? {} : { branch: build.branch }),
    ...(build.submodules ? { submodules: true } : {}),
  }
}

/** Returns the keys of `[build]` that have a value. */
function givenInputs({ inputs }: EffectiveFile): NonNullable<AppFile['build']> {
  if (!inputs) return {}
  const { dockerfile, args, env, secrets } = inputs
  return {
    ...(dockerfile === '' ? {} : { dockerfile }),
    ...(Object.keys(args).length === 0 ? {} : { args: { ...args } }),
    ...(env.length === 0 ? {} : { env: [...env] }),
    ...(secrets.length === 0 ? {} : { secrets: [...secrets] }),
  }
}

function processesWith(file: AppFile, before: EffectiveFile, state: EffectiveFile): NonNullable<AppFile['processes']> {
  const { web } = file.processes ?? {}
  const given = web ?? {}
  const isSame = isDeepStrictEqual(before.processes, state.processes)
  const next: NonNullable<AppFile['processes']> =
    isSame && web === undefined
      ? {}
      : { web: isSame ? given : processWith(given, before.processes.web, state.processes.web) }
  for (const [name, worker] of Object.entries(state.workers))
    next[name] = processWith(file.processes?.[name] ?? {}, before.workers[name] ?? defaults, worker)
  return next
}

/** Returns the table of a process, in which keys whose values differ from the app's state are replaced. */
function processWith(process: Web, before: Worker & Partial<WebProcess>, now: Worker & Partial<WebProcess>): Web {
  const known = flatProcess(before)
  const changed = [...flatProcess(now)].filter(([key, value]) => !isDeepStrictEqual(known.get(key), value))
  const { health, autoscaling, canary, command, hosts, strategy, restart, max_restarts, ...rest } = process
  const isChanged = (path: string) => changed.some(([key]) => key.startsWith(path))
  const inner = Object.fromEntries(changed.filter(([key]) => !key.includes('.')))
  return {
    ...(now.command.length > 0 && command ? { command } : {}),
    ...rest,
    // The policy "always" is represented by a missing key. If the app's policy differs from that in the file, leave the
    // key out here; `inner` adds it again for another policy.
    ...(restart && (now.restart ?? 'always') === (before.restart ?? 'always') ? { restart } : {}),
    ...(strategy && now.strategy === before.strategy ? { strategy } : {}),
    ...(max_restarts !== undefined && now.max_restarts !== undefined ? { max_restarts } : {}),
    ...inner,
    ...(now.health && isChanged('health.') ? { health: now.health } : health ? { health } : {}),
    ...(now.autoscaling && isChanged('autoscaling.') ? { autoscaling: now.autoscaling } : {}),
    ...(now.autoscaling && !isChanged('autoscaling.') && autoscaling ? { autoscaling } : {}),
    ...(now.hosts
      ? { hosts: isDeepStrictEqual(now.hosts, before.hosts) && hosts ? hosts : givenHosts(now.hosts) }
      : {}),
    ...(now.canary && isChanged('canary.') ? { canary: now.canary } : {}),
    ...(now.canary && !isChanged('canary.') && canary ? { canary } : {}),
  }
}

/** Returns the tables `require` and `prefer`, without an empty one. */
function givenHosts({ require, prefer }: NonNullable<Worker['hosts']>): NonNullable<Web['hosts']> {
  const has = (labels: object) => Object.keys(labels).length > 0
  return { ...(has(require) ? { require: { ...require } } : {}), ...(has(prefer) ? { prefer: { ...prefer } } : {}) }
}

/** Returns the keys of a job that `mote.toml` already has, or whose values differ from the default. */
function jobWith(given: FileJobKeys | undefined, { command, ...job }: FileJob): FileJobKeys {
  const { command: _, ...kept } = given ?? {}
  const plain = { schedule: '', time_zone: 'UTC', overlap: 'skip', retries: 0, timeout_seconds: 3600 }
  const own = Object.entries(job).filter(
    ([key, value]) => Object.hasOwn(kept, key) || value !== Reflect.get(plain, key),
  )
  return { schedule: job.schedule, command: [...command], ...Object.fromEntries(own) }
}
type FileJobKeys = NonNullable<AppFile['jobs']>[string]

const defaults: Worker = { command: [], vcpus: 1, memory_mib: 512, disk_mib: 1024, replicas: 1 }

function volumeWith({ volumes = [] }: AppFile, before: EffectiveFile, volume: FileVolume): Volume {
  const given = volumes.find(({ name }) => name === volume.name) ?? { name: volume.name }
  const now = before.volumes.find(({ name }) => name === volume.name) ?? effectiveVolume
  return {
    ...given,
    ...(now.mount === volume.mount ? {} : { mount: volume.mount }),
    ...(now.size_mib === volume.size_mib ? {} : { size_mib: volume.size_mib }),
    ...(now.read_only === volume.read_only ? {} : { read_only: volume.read_only }),
  }
}

const effectiveVolume: Omit<FileVolume, 'name'> = { mount: '/data', size_mib: 1024, read_only: false }

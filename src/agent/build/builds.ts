/**
 * All builds of this host. A restart of the agent ends running builds: the control plane sends the desired state again,
 * and each unfinished build starts over.
 */
import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { Value } from 'typebox/value'
import type { Bus } from '../../bus/bus.ts'
import { BuildObserved, type BuildPut, type HypervisorName, type LogBatch, subjects } from '../../contract/agent.ts'
import { readIfExists, writeFileAtomic } from '../../lib/files.ts'
import type { Semaphore } from '../../lib/semaphore.ts'
import type { Driver } from '../hypervisor/driver.ts'
import type { RegistryConfig } from '../base/registry-config.ts'
import { logPaths } from '../logs/file.ts'
import type { StoredLine } from '../logs/line.ts'
import type { LogFiles } from '../logs/search.ts'
import type { LogLimits } from '../logs/limit.ts'
import { type VmLog, vmLog } from '../logs/vm-log.ts'
import { buildLoginsFrom } from '../image/logins.ts'
import { oneWayIn } from '../image/oneway.ts'
import { isVmId } from '../base/vm-id.ts'
import { StepError } from '../base/step-error.ts'
import { unprivilegedIn } from '../worker/worker.ts'
import { BuildFault } from './fault.ts'
import { build } from './job.ts'
import { maskedLog } from './mask.ts'

export interface BuildsDeps {
  readonly hostId: string
  /** Parent directory of `builds` (results and logs) and `build-cache`. */
  readonly dataDir: string
  readonly vmDir: (vmId: string) => string
  readonly cacheDir: string
  readonly imageDir: string
  readonly registries: readonly RegistryConfig[]
  readonly buildCa: string | null
  readonly toolchainMib: number
  readonly drivers: ReadonlyMap<HypervisorName, Driver>
  readonly bootSlots: Semaphore
  /** Resolves when the hypervisor drivers may boot VMs. */
  readonly ready: Promise<void>
  readonly logLimits: LogLimits
  readonly bus: Bus
  readonly log: Logger
}

export interface Builds {
  /**
   * Starts, restarts or cancels a build until it matches the desired state.
   * @throws StepError `stale_generation`, `invalid_build`
   */
  put(put: BuildPut): Promise<BuildObserved>
  /** Returns stored log lines; undefined if this host never had the build or has deleted it. */
  logs(buildId: string, tail: number, afterUs: number): Promise<StoredLine[] | undefined>
  /** Returns the paths of a build's log files; undefined if this host never had the build or has deleted it. */
  logFiles(buildId: string): Promise<LogFiles | undefined>
  /** Cancels running builds. Stored results remain. */
  stop(): Promise<void>
}

interface Entry {
  put: BuildPut
  observed: BuildObserved
  readonly log: VmLog
  readonly abort: AbortController
  done: Promise<void>
}

/**
 * Logs and results of builds are deleted after seven days. Users usually look at a failed deployment on the same day.
 */
const keptMs = 7 * 24 * 3_600_000

export async function createBuilds(deps: BuildsDeps): Promise<Builds> {
  const root = join(deps.dataDir, 'builds')
  const entries = new Map<string, Entry>()
  const dirOf = (buildId: string) => join(root, buildId)
  const outcomeFile = (buildId: string) => join(dirOf(buildId), 'outcome.json')
  await mkdir(root, { recursive: true, mode: 0o700 })
  await prune(root)

  const publish = (entry: Entry, change: Partial<BuildObserved>) => {
    entry.observed = { ...entry.observed, ...change }
    deps.bus
      .publish(subjects.build(deps.hostId), entry.observed)
      .catch((err: unknown) =>
        deps.log.warn({ err }, 'cannot publish the state of a build; the control plane requests it again'),
      )
  }
  const over = async (entry: Entry, change: Partial<BuildObserved>) => {
    await entry.log.flush()
    const outcome = { ...entry.observed, ...change }
    await writeFileAtomic(outcomeFile(outcome.buildId), JSON.stringify(outcome))
    publish(entry, change)
    if (entries.get(outcome.buildId) === entry) entries.delete(outcome.buildId)
  }
  const outcomeOf = async (buildId: string): Promise<BuildObserved | undefined> => {
    const text = await readIfExists(outcomeFile(buildId))
    return text === undefined ? undefined : Value.Parse(BuildObserved, JSON.parse(text))
  }

  const start = async (put: BuildPut): Promise<Entry> => {
    await mkdir(dirOf(put.buildId), { recursive: true, mode: 0o700 })
    const entry: Entry = {
      put,
      observed: { ...fresh(put), state: 'fetching' },
      log: maskedLog(openLog(deps, put, dirOf(put.buildId)), Object.values(put.spec.settings?.secrets ?? {})),
      abort: new AbortController(),
      done: Promise.resolve(),
    }
    entries.set(put.buildId, entry)
    entry.done = work(deps, entry, dirOf(put.buildId), change => publish(entry, change))
      .then(
        change => (entry.put.want === 'present' && !entry.abort.signal.aborted ? over(entry, change) : undefined),
        (err: unknown) => deps.log.error({ err, buildId: put.buildId }, 'cannot store the outcome of a build'),
      )
      .then(() => undefined)
    return entry
  }

  const end = async (entry: Entry, put: BuildPut) => {
    entry.put = put
    entry.observed = { ...entry.observed, generation: put.generation }
    entry.abort.abort(new Error('the build is not wanted any more'))
    await entry.done
    await over(entry, { ...fresh(put), state: 'absent' })
  }

  return {
    async put(put) {
      if (!isVmId(put.buildId))
        throw new StepError(
          'invalid_build',
          `invalid build id "${put.buildId}": only letters, digits, - and _ are allowed`,
        )
      const entry = entries.get(put.buildId)
      const known = entry?.observed ?? (await outcomeOf(put.buildId))
      if (put.generation < (known?.generation ?? 0))
        throw new StepError('stale_generation', `generation ${put.generation} is older than ${known?.generation}`)
      if (known && put.generation === known.generation) return known
      if (put.want === 'present') {
        if (entry) await end(entry, put)
        return (await start(put)).observed
      }
      if (entry) {
        void end(entry, put).catch((err: unknown) => deps.log.error({ err }, 'cannot end a build'))
        return { ...entry.observed, generation: put.generation }
      }
      const gone = { ...fresh(put), state: 'absent' } as const
      await mkdir(dirOf(put.buildId), { recursive: true, mode: 0o700 })
      await writeFileAtomic(outcomeFile(put.buildId), JSON.stringify(gone))
      return gone
    },
    async logs(buildId, tail, afterUs) {
      if (!isVmId(buildId)) return undefined
      const log =
        entries.get(buildId)?.log ?? ((await outcomeOf(buildId)) && readOnlyLog(deps, buildId, dirOf(buildId)))
      const lines = await log?.read({ tail, afterUs })
      return lines && newest(lines, mostAnswerBytes)
    },
    async logFiles(buildId) {
      if (!isVmId(buildId)) return undefined
      const log = entries.get(buildId)?.log
      await log?.flush()
      if (!log && (await readIfExists(outcomeFile(buildId))) === undefined) return undefined
      return { open: logPaths(dirOf(buildId)), closed: [] }
    },
    async stop() {
      const running = [...entries.values()]
      for (const { abort } of running) abort.abort(new Error('the agent ends'))
      await Promise.all(running.map(({ done }) => done))
      for (const { log } of running) await log.flush()
    },
  }
}

/** Maximum size of the log lines in one `logs` response. A bus message holds at most 1 MiB. */
const mostAnswerBytes = 768 * 1024

function newest(lines: readonly StoredLine[], mostBytes: number): StoredLine[] {
  let bytes = 0
  const first = lines.findLastIndex(({ line }) => (bytes += Buffer.byteLength(JSON.stringify(line)) + 64) > mostBytes)
  return lines.slice(first + 1)
}

const fresh = ({ buildId, generation }: BuildPut) => ({ buildId, generation, image: null, commit: null, error: null })

/**
 * Runs the build and returns its result. If the build failed because of this host, the message names the cause, because
 * the build is not retried.
 */
async function work(
  deps: BuildsDeps,
  entry: Entry,
  dir: string,
  publish: (change: Partial<BuildObserved>) => void,
): Promise<Partial<BuildObserved>> {
  const { put, log, abort } = entry
  const { spec, buildId } = put
  const signal = AbortSignal.any([abort.signal, AbortSignal.timeout(spec.timeLimitMs)])
  const workDir = join(dir, 'work')
  try {
    const driver = deps.drivers.get(spec.hypervisor)
    if (!driver) throw new BuildFault(`This host does not offer ${spec.hypervisor}.`)
    await deps.ready
    await rm(workDir, { recursive: true, force: true })
    await mkdir(workDir, { mode: 0o700 })
    const image = await build(
      {
        ...deps,
        driver,
        cachesDir: join(deps.dataDir, 'build-cache'),
        unprivileged: unprivilegedIn(deps.cacheDir),
        askBuildLogin: buildLoginsFrom(deps.bus, deps.hostId),
        oneWay: oneWayIn(deps.cacheDir),
      },
      {
        buildId,
        spec,
        log,
        work: workDir,
        vmDir: deps.vmDir(buildId),
        onCommit: commit => publish({ commit }),
        onState: state => publish({ state }),
      },
      signal,
    )
    return { state: 'succeeded', image }
  } catch (error) {
    const isLate = signal.aborted && !abort.signal.aborted
    const message = isLate
      ? `The build took longer than ${Math.round(spec.timeLimitMs / 60_000)} minutes.`
      : messageOf(error)
    if (!(error instanceof BuildFault)) deps.log.warn({ err: error, buildId }, 'a build failed')
    log.say(message)
    return { state: 'failed', error: message }
  } finally {
    await rm(workDir, { recursive: true, force: true })
  }
}

const messageOf = (error: unknown) =>
  error instanceof BuildFault
    ? error.message
    : `The host failed to run the build: ${error instanceof Error ? error.message : String(error)}`

function openLog(deps: BuildsDeps, { buildId, spec }: BuildPut, dir: string): VmLog {
  const { projectId, appId, deploymentId } = spec
  const subject = subjects.log({ hostId: deps.hostId, projectId, appId, deploymentId, vmId: buildId })
  return logAt(deps, buildId, dir, async batch => {
    await deps.bus.publish(subject, { ...batch, deploymentId } satisfies LogBatch)
  })
}

const readOnlyLog = (deps: BuildsDeps, buildId: string, dir: string) => logAt(deps, buildId, dir, async () => undefined)

const logAt = (
  deps: BuildsDeps,
  vmId: string,
  dir: string,
  publish: (batch: Omit<LogBatch, 'deploymentId'>) => Promise<void>,
) =>
  vmLog({
    vmId,
    dir,
    publish,
    limits: deps.logLimits,
    stream: 'build',
    nowMs: () => performance.timeOrigin + performance.now(),
    onError: err => deps.log.error({ vmId, err }, 'cannot store log lines'),
  })

async function prune(root: string): Promise<void> {
  for (const name of await readdir(root)) {
    const { mtimeMs } = await stat(join(root, name))
    if (mtimeMs < Date.now() - keptMs) await rm(join(root, name), { recursive: true, force: true })
    else await rm(join(root, name, 'work'), { recursive: true, force: true })
  }
}

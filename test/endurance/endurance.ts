/**
 * Runs two instances of each built program, first idle, then under light use, and counts the resources that they hold:
 * database sessions, sockets, descriptors, timers, threads, subscriptions and memory. None of these may grow.
 */
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { countAll, type Counts } from './counts.ts'
import { type Allowance, growthOf, type Row } from './growth.ts'
import { startInstallation } from './installation.ts'
import { prepareLoad, type Work } from './load.ts'

export interface EnduranceOptions {
  /** Path of the built programs. */
  readonly main: string
  /** A migrated database that only this run uses. */
  readonly databaseUrl: string
  /**
   * Another database of the same server. Sessions are counted from it, so that the counting session is not included.
   */
  readonly observerUrl: string
  /** Duration of each part: the idle part and the part under use. */
  readonly seconds: number
  readonly sampleMs: number
  readonly allowance: Allowance
}

export interface EnduranceResult {
  readonly idle: readonly Row[]
  readonly used: readonly Row[]
  readonly work: Work
}

/** Pause after the warm-up in which aborted streams and requests in flight end. */
const settleMs = 3_000

export async function endurance(options: EnduranceOptions): Promise<EnduranceResult> {
  await using cleanup = new AsyncDisposableStack()
  const installation = cleanup.use(await startInstallation(options.main, options.databaseUrl))
  const observer = new pg.Client({ connectionString: options.observerUrl })
  await observer.connect()
  cleanup.defer(() => observer.end())
  const load = await prepareLoad(installation)
  await load.warmUp()
  await pause(settleMs)
  const watch = async (): Promise<Counts[]> => {
    const samples: Counts[] = []
    for (const end = performance.now() + options.seconds * 1000; performance.now() < end; await pause(options.sampleMs))
      samples.push(await countAll(installation, observer))
    return samples
  }
  const { allowance } = options
  const idle = growthOf(await watch(), { ...allowance, pooled: allowance.count })
  const end = new AbortController()
  const working = load.run(end.signal)
  working.catch(() => end.abort()) // awaiting `working` throws the error
  const samples = await watch().finally(() => end.abort())
  const work = await working
  return { idle, used: growthOf(samples, allowance), work }
}

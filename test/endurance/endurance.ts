/**
 * Two of each program, as they are built, idle and then under light use, while all that they hold is counted: sessions,
 * sockets, descriptors, timers, threads, subscriptions and memory. Nothing may grow.
 */
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { countAll, type Counts } from './counts.ts'
import { type Allowance, growthOf, type Row } from './growth.ts'
import { startInstallation } from './installation.ts'
import { prepareLoad } from './load.ts'

export interface EnduranceOptions {
  /** The built file of the programs. */
  readonly main: string
  /** A migrated database of its own. */
  readonly databaseUrl: string
  /** Another database of the same server, so that the observer does not count itself. */
  readonly observerUrl: string
  /** Of each of the two parts. */
  readonly seconds: number
  readonly sampleMs: number
  readonly copyTimeout: Allowance
}

export interface EnduranceResult {
  readonly idle: readonly Row[]
  readonly used: readonly Row[]
  readonly work: { readonly requests: number; readonly deployments: number; readonly streams: number }
}

/** After its warm-up: streams that clients left, requests under way. */
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
  const { copyTimeout } = options
  const idle = growthOf(await watch(), { ...copyTimeout, pooled: copyTimeout.count })
  const end = new AbortController()
  const working = load.run(end.signal)
  working.catch(() => end.abort()) // shown when it is awaited
  const samples = await watch().finally(() => end.abort())
  const work = await working
  return { idle, used: growthOf(samples, copyTimeout), work }
}

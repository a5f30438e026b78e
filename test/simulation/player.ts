/**
 * Program that runs simulations, one after the other, as requested by `players.ts`, on a PostgreSQL server of its own.
 * The program and its server share one core: they take turns, and waking up another core takes longer than executing a
 * statement.
 */
import { pino } from 'pino'
import { connectDb } from '../../src/db/connect.ts'
import { databaseUrl, startPrivateServer, templateName } from '../support/global-setup.ts'
import { live } from './life.ts'
import { stageOf, useVirtualTime } from './stage.ts'

/** A message to the program: run a simulation. */
export interface Order {
  readonly seed: number
  readonly steps: number
}

/** A message from the program: first that it is ready, then the result of each simulation. */
export type Answer =
  | { readonly is: 'ready' }
  | { readonly is: 'lived'; readonly seed: number; readonly visited: readonly string[] }
  | { readonly is: 'failed'; readonly seed: number; readonly why: string }

/** PostgreSQL settings. `stage.ts` vacuums instead of autovacuum, and nothing reads the statistics. */
const settings = { autovacuum: 'off', track_counts: 'off', track_activities: 'off' }

async function main(): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  // The interval keeps this process alive, because the child processes that it awaits do not.
  const awake = setInterval(() => undefined, 1000)
  cleanup.defer(() => clearInterval(awake))
  const server = cleanup.use(await startPrivateServer('embedded', settings))
  if (!server) throw new Error('no PostgreSQL server programs: run npm install')
  const url = databaseUrl(server.adminUrl, templateName)
  await useVirtualTime(url)
  const log = pino({ level: 'silent' })
  // One connection of each kind: statements are planned once, and run in order, so that the same seed repeats a run.
  const db = await connectDb({ url, log, autocommitConnections: 1, txConnections: 1 })
  cleanup.defer(() => db.close())
  const stage = stageOf(db)
  const visited = new Set<string>()
  const answer = (message: Answer) => process.send?.(message)
  const ended = new Promise<void>(resolve => process.once('disconnect', resolve))
  process.on('message', (order: Order) => {
    const { seed, steps } = order
    live(stage, seed, steps, visited).then(
      () => answer({ is: 'lived', seed, visited: [...visited] }),
      (error: unknown) => answer({ is: 'failed', seed, why: explain(error) }),
    )
  })
  answer({ is: 'ready' })
  await ended
}

function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? String(error.stack) : `${error.message}\ncaused by ${explain(error.cause)}`
}

await main()

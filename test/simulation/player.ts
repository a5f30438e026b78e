/**
 * A program that lives lives: on a PostgreSQL of its own, one after the other, as it is told by whoever started it
 * (`players.ts`). Both stay on one core: each waits for the other, and waking up on another core costs more than the statement.
 */
import { pino } from 'pino'
import { connectDb } from '../../src/db/connect.ts'
import { databaseUrl, startPrivateServer, templateName } from '../support/global-setup.ts'
import { live } from './life.ts'
import { stageOf } from './stage.ts'

/** What it is told. */
export interface Order {
  readonly seed: number
  readonly steps: number
}

/** What it answers: first that it is there, then once for each order. */
export type Answer =
  | { readonly is: 'ready' }
  | { readonly is: 'lived'; readonly seed: number; readonly visited: readonly string[] }
  | { readonly is: 'failed'; readonly seed: number; readonly why: string }

/** Nobody asks this server what it does; what it would clean up `stage.ts` does, and plans stay as they are. */
const settings = { autovacuum: 'off', track_counts: 'off', track_activities: 'off' }

async function main(): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  // What is awaited at the end are processes that do not keep this one alive.
  const awake = setInterval(() => undefined, 1000)
  cleanup.defer(() => clearInterval(awake))
  const server = cleanup.use(await startPrivateServer('embedded', settings))
  if (!server) throw new Error('no PostgreSQL server programs: run npm install')
  const url = databaseUrl(server.adminUrl, templateName)
  const log = pino({ level: 'silent' })
  // One of each: every statement is planned once, and nothing overtakes anything, so that a seed replays.
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

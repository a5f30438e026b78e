/** Two transactions that meet in each way in which two can wait for each other in a circle. Nothing is kept of either. */
import { type Db, type Param, type Statement, statement, type Tx } from '../../src/db/db.ts'
import { retryable } from '../../src/db/errors.ts'
import { until } from './wait.ts'

export type Work = (tx: Tx) => Promise<unknown>

class Undone extends Error {}

/** How it ended: undone after all of its work, or what it threw. */
type End = { readonly is: 'through' } | { readonly is: 'refused'; readonly error: unknown }

const pidOf = statement<{ pid: number }>('test.pid', 'SELECT pg_backend_pid() AS pid')
const waitsFor = statement<{ waits: boolean }>(
  'test.waits',
  `SELECT coalesce(wait_event_type = 'Lock', false) AS waits FROM pg_stat_activity WHERE pid = $1`,
)
/** Makes it as quick to be told of a circle as it is to walk into one. For connections that are opened after it. */
export const shortDeadlocks = statement(
  'test.shortDeadlocks',
  `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = ''20ms''', current_database()); END $$`,
)

/**
 * Rows that are new are nobody's to wait for. What they refer to is held, too, but only against who deletes it or locks it FOR UPDATE,
 * which is done to apps and deployments, first of all.
 */
const isLocking = ({ name, text }: Statement<unknown>) =>
  !name.startsWith('engine.') && /\b(UPDATE|DELETE|FOR SHARE|pg_advisory_xact_lock)\b/.test(text)

interface Running {
  readonly pid: Promise<number>
  readonly end: Promise<End>
  /** Names of its statements that lock, as they end. */
  readonly locking: readonly string[]
}

/** @param stopAt waits after that many locking statements, until `goOn` */
function run(db: Db, work: Work, stopAt = 0, stop?: { reached(): void; readonly goOn: Promise<void> }): Running {
  const pid = Promise.withResolvers<number>()
  const locking: string[] = []
  let waits: Promise<void> | undefined
  const watched = async <T>(of: Statement<unknown>, send: () => Promise<T>): Promise<T> => {
    await waits
    const answer = await send()
    if (!isLocking(of) || locking.push(of.name) !== stopAt || !stop) return answer
    waits = stop.goOn
    stop.reached()
    await waits
    return answer
  }
  const end = db
    .tx(async tx => {
      pid.resolve((await tx.one(pidOf)).pid)
      await work({
        ...tx,
        rows: <Row>(of: Statement<Row>, params?: readonly Param[]) => watched(of, () => tx.rows(of, params)),
        one: <Row>(of: Statement<Row>, params?: readonly Param[]) => watched(of, () => tx.one(of, params)),
        maybe: <Row>(of: Statement<Row>, params?: readonly Param[]) => watched(of, () => tx.maybe(of, params)),
        run: (of: Statement<unknown>, params?: readonly Param[]) => watched(of, () => tx.run(of, params)),
      })
      throw new Undone()
    })
    .then(
      (): End => ({ is: 'through' }),
      (error: unknown): End => (error instanceof Undone ? { is: 'through' } : { is: 'refused', error }),
    )
  return { pid: pid.promise, end, locking }
}

/** Alone: how it ends, and after which of its statements another one could come between. */
export async function alone(db: Db, work: Work): Promise<End & { readonly locking: readonly string[] }> {
  const { end, locking } = run(db, work)
  return { ...(await end), locking }
}

/**
 * Stops `one` after one of its locking statements, lets `other` run until it has ended or waits for it, and lets `one` go on; so for each
 * of these places. In a circle of two each holds what the other waits for, so it is one of these: `other` gets to what it holds then
 * while `one` stands still. The later `one` stops, the sooner `other` waits; of places where it waits for the same the first
 * says all, since there `one` has most before it.
 * @param places how many locking statements `one` has
 * @returns the statements after which PostgreSQL found a circle
 */
export async function collide(db: Db, one: Work, other: Work, places: number): Promise<string[]> {
  const circles: string[] = []
  /** How many locking statements `other` had behind it where it waited. */
  const meet = async (place: number): Promise<number> => {
    const reached = Promise.withResolvers<void>()
    const goOn = Promise.withResolvers<void>()
    const first = run(db, one, place, { reached: reached.resolve, goOn: goOn.promise })
    await Promise.race([reached.promise, first.end])
    const second = run(db, other)
    let isOver = false
    const noted = second.end.then(() => void (isOver = true))
    const pid = await second.pid
    await until(async () => isOver || (await db.one(waitsFor, [pid])).waits, {
      what: 'the other has ended, or waits',
      everyMs: 1,
    })
    const behind = isOver ? Number.POSITIVE_INFINITY : second.locking.length
    goOn.resolve()
    await noted
    const ends = [await first.end, await second.end]
    if (ends.some(end => end.is === 'refused' && retryable(end.error)))
      circles.push(first.locking[place - 1] ?? String(place))
    return behind
  }
  const between = async (low: number, high: number, behindLow: number, behindHigh: number): Promise<void> => {
    if (high - low < 2 || behindLow === behindHigh) return
    const middle = Math.floor((low + high) / 2)
    const behind = await meet(middle)
    await between(low, middle, behindLow, behind)
    await between(middle, high, behind, behindHigh)
  }
  if (places === 0) return circles
  const behindFirst = await meet(1)
  if (places > 1) await between(1, places, behindFirst, await meet(places))
  return circles
}

/**
 * Many of them at once, whichever comes: for circles of more than two.
 * @returns which PostgreSQL ended for the sake of others
 */
export async function crowd(
  db: Db,
  works: Readonly<Record<string, Work>>,
  { times, atOnce }: { readonly times: number; readonly atOnce: number },
): Promise<string[]> {
  const all = Object.entries(works)
  const ended: string[] = []
  let left = times
  const next = async () => {
    while (left-- > 0) {
      const [name, work] = all[Math.floor(Math.random() * all.length)]!
      const end = await run(db, work).end
      if (end.is === 'refused' && retryable(end.error)) ended.push(name)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, next))
  return ended
}

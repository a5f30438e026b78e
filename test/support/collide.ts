/**
 * Finds deadlocks between two transactions by interleaving them at each of their locking statements. Both transactions
 * are always rolled back.
 */
import { type Db, type Param, type Statement, statement, type Tx } from '../../src/db/db.ts'
import { retryable } from '../../src/db/errors.ts'
import { until } from './wait.ts'

export type Work = (tx: Tx) => Promise<unknown>

class Undone extends Error {}

/** Outcome of a transaction: `through` if all its statements succeeded before the rollback, `refused` if one failed. */
type End = { readonly is: 'through' } | { readonly is: 'refused'; readonly error: unknown }

const pidOf = statement<{ pid: number }>('test.pid', 'SELECT pg_backend_pid() AS pid')
const waitsFor = statement<{ waits: boolean }>(
  'test.waits',
  `SELECT coalesce(wait_event_type = 'Lock', false) AS waits FROM pg_stat_activity WHERE pid = $1`,
)
/** Makes PostgreSQL detect a deadlock within 20 ms. Applies to connections that are opened afterwards. */
export const shortDeadlocks = statement(
  'test.shortDeadlocks',
  `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = ''20ms''', current_database()); END $$`,
)

/**
 * Returns whether a statement takes locks that other transactions can wait for. Inserts do not count: no other
 * transaction sees the new row, and the rows that it references are only locked against DELETE and FOR UPDATE, which
 * transactions use on apps and deployments before anything else.
 */
const isLocking = ({ name, text }: Statement<unknown>) =>
  !name.startsWith('engine.') && /\b(UPDATE|DELETE|FOR SHARE|pg_advisory_xact_lock)\b/.test(text)

interface Running {
  readonly pid: Promise<number>
  readonly end: Promise<End>
  /** Names of the transaction's locking statements that are complete, in order. */
  readonly locking: readonly string[]
}

/** Runs a transaction. @param stopAt number of locking statements after which it pauses until `goOn` resolves */
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

/**
 * Runs a transaction alone, and returns its outcome and the names of its locking statements.
 */
export async function alone(db: Db, work: Work): Promise<End & { readonly locking: readonly string[] }> {
  const { end, locking } = run(db, work)
  return { ...(await end), locking }
}

/**
 * Looks for deadlocks between two transactions: pauses `one` after one of its locking statements, runs `other` until it
 * ends or blocks, and then resumes `one`. If the two can deadlock, a pause after some statement shows it. Pauses are
 * found by binary search: a later pause of `one` never lets `other` get further. If `other` blocks at the same
 * statement for two pauses, the pauses between them are skipped, because the earlier one leaves `one` the most
 * statements.
 * @param places number of locking statements of `one`
 * @returns the locking statements of `one` after whose pause PostgreSQL detected a deadlock
 */
export async function collide(db: Db, one: Work, other: Work, places: number): Promise<string[]> {
  const circles: string[] = []
  /** Tries one interleaving. Returns how many locking statements `other` had completed when it blocked. */
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
      what: 'the other transaction to end or block',
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
 * Runs many transactions concurrently in random order, to find deadlocks between more than two.
 * @returns the names of transactions that PostgreSQL has aborted to resolve a deadlock
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

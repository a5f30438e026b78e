/** Runs sweeps on their timer or when poked, each in one process of the cluster at a time. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { type Db, type Sql, statement } from '../db/db.ts'
import { type Clock, systemClock } from '../lib/clock.ts'
import { levelOf } from '../lib/outage.ts'
import { describe } from './step.ts'
import type { Sweep } from './sweep.ts'

export interface SweepRun {
  readonly name: string
  readonly started_at: Date | null
  readonly duration_ms: number | null
  /** Numbers that the last run returned; null if it failed. */
  readonly result: Readonly<Record<string, number>> | null
  readonly error: string | null
  readonly runs: number
  readonly failures_in_a_row: number
}

export interface SweeperOptions {
  readonly db: Db
  readonly sweeps: readonly Sweep[]
  readonly log: Logger
  readonly clock?: Clock
  readonly hooks?: {
    swept?(event: {
      readonly name: string
      readonly ms: number
      readonly ok: boolean
      readonly counts: Readonly<Record<string, number>>
    }): void
  }
}

export interface Sweeper {
  start(): Promise<void>
  /** Starts no new runs, gives the running ones `drainMs` (default 10 s) to finish, then aborts them. */
  stop(options?: { readonly drainMs?: number }): Promise<void>
  /**
   * Runs a sweep if it is due or poked and no other process runs it; returns true if it ran. For tests and the command
   * line.
   */
  runDue(name: string): Promise<boolean>
}

const sweepChannel = 'sweep'
/** Interval between attempts to run a poked sweep while another process runs it. */
const retryMs = 200
/**
 * Fraction of the interval after which a sweep counts as due. The timers of processes drift; with 1, a timer that fires
 * slightly early would skip an interval.
 */
const slack = 0.9

const columns = 'name, started_at, duration_ms, result, error, runs, failures_in_a_row'
const isDue = `started_at IS NULL OR started_at <= now() - $2::float8 * interval '1 millisecond' OR pokes > pokes_seen`
const sql = {
  poke: statement(
    'sweep.poke',
    `WITH poked AS (
       INSERT INTO sweep_run (name, pokes) VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET pokes = sweep_run.pokes + 1 RETURNING name)
     SELECT pg_notify('${sweepChannel}', name) FROM poked`,
  ),
  make: statement('sweep.make', 'INSERT INTO sweep_run (name) SELECT unnest($1::text[]) ON CONFLICT (name) DO NOTHING'),
  due: statement<{ due: boolean }>('sweep.due', `SELECT ${isDue} AS due FROM sweep_run WHERE name = $1`),
  begin: statement<{ now: Date }>(
    'sweep.begin',
    `UPDATE sweep_run SET started_at = now(), runs = runs + 1, pokes_seen = pokes WHERE name = $1 AND (${isDue}) RETURNING now() AS now`,
  ),
  succeed: statement(
    'sweep.succeed',
    'UPDATE sweep_run SET duration_ms = $2, result = $3, error = NULL, failures_in_a_row = 0 WHERE name = $1',
  ),
  fail: statement(
    'sweep.fail',
    'UPDATE sweep_run SET duration_ms = $2, result = NULL, error = $3, failures_in_a_row = failures_in_a_row + 1 WHERE name = $1',
  ),
  list: statement<SweepRun>('sweep.list', `SELECT ${columns} FROM sweep_run ORDER BY name`),
}

/**
 * Requests that a sweep runs as soon as possible. A request is never lost: if the sweep is running, it runs again
 * afterwards.
 */
export async function pokeSweep(tx: Sql, name: string): Promise<void> {
  await tx.run(sql.poke, [name])
}

export async function listSweepRuns(from: Sql): Promise<SweepRun[]> {
  return from.rows(sql.list)
}

export function createSweeper(options: SweeperOptions): Sweeper {
  return new CooperativeSweeper(options)
}

class CooperativeSweeper implements Sweeper {
  readonly #options: SweeperOptions
  readonly #clock: Clock
  readonly #sweeps: ReadonlyMap<string, { readonly sweep: Sweep; wake: PromiseWithResolvers<void> }>
  readonly #draining = new AbortController()
  readonly #stopping = new AbortController()
  #made = false
  #loops: Promise<unknown> = Promise.resolve()

  constructor(options: SweeperOptions) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#sweeps = new Map(options.sweeps.map(sweep => [sweep.name, { sweep, wake: Promise.withResolvers<void>() }]))
    if (this.#sweeps.size < options.sweeps.length) throw new Error('BUG: two sweeps have the same name')
  }

  async start(): Promise<void> {
    const listening = await this.#options.db.listen(sweepChannel, name => {
      // After a reconnect, the notification has an empty payload, and any notification may have been missed: wakes all
      // sweeps.
      for (const [known, { wake }] of this.#sweeps) if (name === known || name === '') wake.resolve()
    })
    try {
      await this.#make()
    } catch (error) {
      await listening.stop()
      throw error
    }
    const loops = [...this.#sweeps.keys()].map(name => this.#loop(name))
    this.#loops = Promise.all(loops).finally(() => listening.stop())
  }

  async stop({ drainMs = 10_000 }: { readonly drainMs?: number } = {}): Promise<void> {
    this.#draining.abort()
    const timer = setTimeout(() => this.#stopping.abort(), drainMs)
    await this.#loops
    clearTimeout(timer)
  }

  async runDue(name: string): Promise<boolean> {
    const { db } = this.#options
    const { sweep } = this.#sweepOf(name)
    await this.#make()
    const ran = await db.withLock(`sweep ${name}`, async lost => {
      const begun = await db.maybe(sql.begin, [name, sweep.everyMs * slack])
      if (begun !== undefined) await this.#run(sweep, begun.now, AbortSignal.any([lost, this.#stopping.signal]))
      return begun !== undefined
    })
    return ran ?? false
  }

  /** Inserts the rows in which the results of the sweeps are stored. */
  async #make(): Promise<void> {
    if (this.#made) return
    await this.#options.db.run(sql.make, [[...this.#sweeps.keys()].toSorted()])
    this.#made = true
  }

  #sweepOf(name: string) {
    const found = this.#sweeps.get(name)
    if (found === undefined)
      throw new Error(`no sweep is called "${name}"; there are: ${[...this.#sweeps.keys()].join(', ')}`)
    return found
  }

  async #loop(name: string): Promise<void> {
    const entry = this.#sweepOf(name)
    const { everyMs } = entry.sweep
    while (!this.#draining.signal.aborted) {
      entry.wake = Promise.withResolvers()
      let again = false
      try {
        again = (await this.#due(name, everyMs)) && ((await this.runDue(name)) || (await this.#due(name, everyMs)))
      } catch (error) {
        this.#options.log.warn({ sweep: name, err: describe(error) }, 'cannot run a sweep; retrying')
        again = true
      }
      await this.#sleep(again ? retryMs : everyMs, entry.wake.promise)
    }
  }

  async #due(name: string, everyMs: number): Promise<boolean> {
    return (await this.#options.db.maybe(sql.due, [name, everyMs * slack]))?.due ?? false
  }

  async #run(sweep: Sweep, now: Date, signal: AbortSignal): Promise<void> {
    const { db, log, hooks } = this.#options
    const started = this.#clock.monotonicMs()
    const elapsed = () => Math.round(this.#clock.monotonicMs() - started)
    try {
      const counts = await sweep.run({ signal, now })
      await db.run(sql.succeed, [sweep.name, elapsed(), { ...counts }])
      hooks?.swept?.({ name: sweep.name, ms: elapsed(), ok: true, counts })
    } catch (error) {
      log[levelOf(error)]({ sweep: sweep.name, err: error }, 'a sweep failed; it will run again after its interval')
      await db.run(sql.fail, [sweep.name, elapsed(), describe(error)])
      hooks?.swept?.({ name: sweep.name, ms: elapsed(), ok: false, counts: {} })
    }
  }

  async #sleep(ms: number, woken: Promise<void>): Promise<void> {
    const done = new AbortController()
    const signal = AbortSignal.any([done.signal, this.#draining.signal])
    await Promise.race([woken, delay(ms, undefined, { signal }).catch(() => undefined)])
    done.abort()
  }
}

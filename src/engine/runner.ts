/**
 * Runs workflows: claims due rows in batches, runs their steps concurrently, wakes up on pokes. Any number of runners
 * in any number of processes share one table.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Db } from '../db/db.ts'
import { type Clock, systemClock } from '../lib/clock.ts'
import { newId } from '../lib/ids.ts'
import type { AnyWorkflow } from './workflow.ts'
import { type AlertRow, type ClaimedRow, type EngineStatements, engineStatements, wakeChannel } from './statements.ts'
import { bePresent } from './presence.ts'
import { createSettle, type Settle } from './settle.ts'
import { type Outcome, runStep } from './step.ts'

export { advanceWorkflow, createWorkflow, poke, pokeMany, readWorkflow } from './rows.ts'

export interface RunnerOptions {
  readonly db: Db
  readonly workflows: readonly AnyWorkflow[]
  readonly log: Logger
  /** Clock for measuring durations; leases, wake-ups and deadlines use the database's clock. */
  readonly clock?: Clock
  /** Maximum number of concurrent steps. Steps mostly wait for I/O; default 64. */
  readonly workers?: number
  /** Maximum number of workflows per claim; default 64. */
  readonly batch?: number
  /**
   * Duration of a lease, which is not extended. A step is aborted after 80 % of it and abandoned after 90 %: a step
   * with long work returns `wait` and is run again. Default 60 s. Workflows of a dead runner are taken over earlier.
   */
  readonly leaseMs?: number
  /** Longest sleep between two claims without a poke; default 1 s. */
  readonly pollMs?: number
  readonly hooks?: RunnerHooks
  readonly statements?: EngineStatements
  readonly random?: () => number
}

/** Callbacks for metrics. Must not throw. */
export interface RunnerHooks {
  claimed?(event: { readonly count: number; readonly ms: number }): void
  step?(event: { readonly kind: string; readonly phase: string; readonly outcome: Outcome; readonly ms: number }): void
  /** Called when an alert opens because a phase has exceeded its deadline, and when the alert closes. */
  alert?(event: {
    readonly kind: string
    readonly id: string
    readonly phase: string
    readonly state: 'opened' | 'closed'
  }): void
}

export interface Runner {
  /** Starts the runner. Resolves once it receives pokes and has taken over the workflows of dead runners. */
  start(): Promise<void>
  /**
   * Stops claiming, gives running steps `drainMs` (default 10 s) to end, then aborts them and releases their workflows.
   */
  stop(options?: { readonly drainMs?: number }): Promise<void>
  /** For tests, without `start`: claims the due workflows once, runs their steps to the end, returns their number. */
  tickOnce(): Promise<number>
  /** Opens and closes alerts, and takes over workflows of dead runners. `start` runs this on a timer. */
  upkeepOnce(): Promise<void>
}

export function createRunner(options: RunnerOptions): Runner {
  return new WorkflowRunner(options)
}

const upkeepMs = 1_000
const reconnectMs = 200

class WorkflowRunner implements Runner {
  readonly #options: Required<Omit<RunnerOptions, 'hooks'>> & { readonly hooks: RunnerHooks }
  readonly #workflows: ReadonlyMap<string, AnyWorkflow>
  readonly #settle: Settle
  readonly #running = new Set<Promise<void>>()
  readonly #draining = new AbortController()
  readonly #stopping = new AbortController()
  /**
   * Aborts when the runner has stopped, last of all, because other runners take over its workflows once its lock is
   * released.
   */
  readonly #gone = new AbortController()
  /**
   * Id of the runner; undefined while its lock is not held. Each database session gets a new id, because other runners
   * may take over the workflows that were claimed under a previous id.
   */
  #id: string | undefined
  #wake = Promise.withResolvers<void>()
  #loops: Promise<unknown> = Promise.resolve()

  constructor(options: RunnerOptions) {
    const defaults = {
      clock: systemClock,
      workers: 64,
      batch: 64,
      leaseMs: 60_000,
      pollMs: 1_000,
      hooks: {},
      random: Math.random,
    }
    this.#options = { ...defaults, statements: engineStatements, ...options }
    this.#settle = createSettle(options.db, this.#options.statements)
    this.#workflows = new Map(options.workflows.map(workflow => [workflow.kind, workflow]))
    if (this.#workflows.size < options.workflows.length) throw new Error('BUG: two workflows have the same kind')
  }

  async start(): Promise<void> {
    const { db, log, statements } = this.#options
    const listening = await db.listen(wakeChannel, () => this.#wake.resolve())
    const presence = bePresent({
      ...this.#options,
      kinds: [...this.#workflows.keys()],
      gone: this.#gone.signal,
      onChange: id => {
        this.#id = id
        this.#wake.resolve()
      },
    })
    try {
      await presence.held
      await this.upkeepOnce()
      const unknown = await db.rows(statements.unknownKinds, [[...this.#workflows.keys()]])
      if (unknown.length > 0) {
        const kinds = unknown.map(({ kind }) => kind)
        log.error({ kinds }, 'workflows of unknown kinds are not run by this version of the program')
      }
    } catch (error) {
      this.#gone.abort()
      await Promise.all([presence.ended, listening.stop()])
      throw error
    }
    this.#loops = Promise.all([this.#claimLoop(), this.#upkeepLoop(), presence.ended]).finally(() => listening.stop())
  }

  async stop({ drainMs = 10_000 }: { readonly drainMs?: number } = {}): Promise<void> {
    this.#draining.abort()
    this.#wake.resolve()
    const timer = setTimeout(() => this.#stopping.abort(), drainMs)
    await this.#idle()
    clearTimeout(timer)
    this.#stopping.abort()
    this.#gone.abort()
    await this.#loops
  }

  async tickOnce(): Promise<number> {
    const rows = await this.#claim(this.#options.batch, this.#id ?? newId())
    for (const row of rows) this.#run(row)
    await this.#idle()
    return rows.length
  }

  async upkeepOnce(): Promise<void> {
    const { db, statements, hooks, log } = this.#options
    const freed = await db.rows(statements.releaseDead)
    if (freed.length > 0) {
      log.warn({ workflows: freed.length }, 'took over workflows of a dead runner')
      this.#wake.resolve()
    }
    await db.run(statements.forgetDead)
    const report = (state: 'opened' | 'closed') => (row: AlertRow) =>
      hooks.alert?.({ kind: row.kind, id: row.machine_id, phase: row.phase, state })
    for (const row of await db.rows(statements.openAlerts)) {
      // Logged as a warning only, because `mote admin alerts` lists the alert, which closes when the workflow leaves
      // the phase.
      log.warn({ kind: row.kind, id: row.machine_id, phase: row.phase }, 'a workflow is overdue in its phase')
      report('opened')(row)
    }
    for (const row of await db.rows(statements.closeAlerts)) report('closed')(row)
  }

  async #idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
  }

  async #claimLoop(): Promise<void> {
    while (!this.#draining.signal.aborted) {
      this.#wake = Promise.withResolvers()
      try {
        await this.#sleep(await this.#claimFree())
      } catch (error) {
        this.#options.log.warn({ err: messageOf(error) }, 'cannot claim workflows; retrying')
        await this.#pause(reconnectMs)
      }
    }
  }

  /** Claims as many workflows as the runner may start. Returns the delay until the next claim. */
  async #claimFree(): Promise<number> {
    const { workers, batch, pollMs, db, statements } = this.#options
    const free = Math.min(batch, workers - this.#running.size)
    if (free <= 0 || this.#id === undefined) return pollMs
    const kinds = [...this.#workflows.keys()]
    const claiming = this.#claim(free, this.#id)
    const asked = db.one(statements.untilDue, [kinds])
    // Claimed workflows must run even if the query for the next due time fails: no other runner would take them before
    // the lease expires.
    asked.catch(() => undefined)
    const rows = await claiming
    for (const row of rows) this.#run(row)
    const { ms } = await asked
    // If fewer workflows were claimed than slots are free, one that is already due has just become due or is being
    // committed. Pause briefly to avoid a busy loop.
    return rows.length === free ? 0 : Math.min(pollMs, Math.max(2, ms ?? pollMs))
  }

  async #upkeepLoop(): Promise<void> {
    while (!this.#draining.signal.aborted) {
      await this.#pause(upkeepMs)
      await this.upkeepOnce().catch((error: unknown) =>
        this.#options.log.warn({ err: messageOf(error) }, 'engine upkeep failed'),
      )
    }
  }

  async #claim(count: number, runnerId: string): Promise<ClaimedRow[]> {
    const { db, statements, leaseMs, clock, hooks } = this.#options
    const started = clock.monotonicMs()
    const claim = (most: number) =>
      db.rows(statements.claim, [[...this.#workflows.keys()], most, newId(), leaseMs, runnerId])
    // `deliver` and `claim` take one round trip if they share a connection, and run in this order.
    const failed = (error: unknown) => {
      this.#options.log.warn({ err: messageOf(error) }, 'cannot claim workflows; retrying')
      return []
    }
    const [delivered, rows] = await Promise.all([db.rows(statements.deliver).catch(failed), claim(count)])
    const claimed = new Set(rows.map(row => row.id))
    const isMissing = rows.length < count && delivered.some(({ id }) => !claimed.has(id))
    const all = isMissing ? [...rows, ...(await claim(count - rows.length).catch(failed))] : rows
    hooks.claimed?.({ count: all.length, ms: clock.monotonicMs() - started })
    return all
  }

  #run(row: ClaimedRow): void {
    const running = this.#step(row).finally(() => {
      this.#running.delete(running)
      this.#wake.resolve()
    })
    this.#running.add(running)
  }

  async #step(row: ClaimedRow): Promise<void> {
    const { db, statements, clock, leaseMs, random, hooks, log } = this.#options
    const workflow = this.#workflows.get(row.kind)
    if (workflow === undefined)
      throw new Error(`BUG: claimed a workflow of kind ${row.kind}, which this runner does not run`)
    const started = clock.monotonicMs()
    const limits = { stepTimeoutMs: leaseMs * 0.8, giveUpMs: leaseMs * 0.9, stopping: this.#stopping.signal }
    const { outcome, error } = await runStep(workflow, row, {
      db,
      sql: statements,
      settle: this.#settle,
      random,
      ...limits,
    })
    const ms = clock.monotonicMs() - started
    const where = { kind: row.kind, id: row.id, phase: row.phase, attempt: row.attempt, ms: Math.round(ms) }
    if (outcome === 'failed') log.warn({ ...where, err: error }, 'a step failed and will be retried')
    if (outcome === 'abandoned') log.error(where, 'a step ignored its signal and was abandoned')
    if (outcome === 'lost')
      log.warn({ ...where, err: error }, 'a step ended after its lease was lost; nothing was written')
    hooks.step?.({ kind: row.kind, phase: row.phase, outcome, ms })
  }

  /** Sleeps until the time is over or a poke arrives. */
  async #sleep(ms: number): Promise<void> {
    const woken = new AbortController()
    await Promise.race([
      this.#wake.promise,
      delay(Math.max(0, ms), undefined, { signal: woken.signal }).catch(() => undefined),
    ])
    woken.abort()
  }

  async #pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: AbortSignal.any([this.#draining.signal, this.#stopping.signal]) }).catch(
      () => undefined,
    )
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

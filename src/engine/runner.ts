/**
 * Gives life to machines: claims due rows in batches, runs their steps concurrently, wakes up when somebody pokes.
 * Any number of runners in any number of processes share one table.
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
  /** For durations only; leases, wake-ups and deadlines go by the database's clock. */
  readonly clock?: Clock
  /** Most steps at the same time. Steps wait for others most of the time; default 64. */
  readonly workers?: number
  /** Most machines of one claim; default 64. */
  readonly batch?: number
  /**
   * How long a claim is good for; it is not extended. A step is told to end after 80 % of it and left behind after 90 %:
   * long work is a `wait` and another look. Default 60 s. When a runner dies, its machines do not wait for this.
   */
  readonly leaseMs?: number
  /** Longest sleep between two looks when nobody pokes; default 1 s. */
  readonly pollMs?: number
  readonly hooks?: RunnerHooks
  readonly statements?: EngineStatements
  readonly random?: () => number
}

/** For metrics. Must not throw. */
export interface RunnerHooks {
  claimed?(event: { readonly count: number; readonly ms: number }): void
  step?(event: { readonly kind: string; readonly phase: string; readonly outcome: Outcome; readonly ms: number }): void
  /** A phase outlived its deadline, or left after it had. */
  alert?(event: {
    readonly kind: string
    readonly id: string
    readonly phase: string
    readonly state: 'opened' | 'closed'
  }): void
}

export interface Runner {
  /** Resolves when it listens and has taken over what dead runners left. */
  start(): Promise<void>
  /** Claims nothing more, gives running steps `drainMs` (default 10 s) to end, then aborts them and gives them back. */
  stop(options?: { readonly drainMs?: number }): Promise<void>
  /** For tests, without `start`: claims once what is due, runs it to its end, returns how many there were. */
  tickOnce(): Promise<number>
  /** Upkeep that `start` does on a timer: alerts, machines of dead runners. */
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
  /** Last of all: whoever says that it does not live any more has its machines taken over. */
  readonly #gone = new AbortController()
  /**
   * Undefined while the lock that says that this runner lives is not held. A new one for each session of the database:
   * what was claimed under a lost one may be taken over by others.
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
    if (this.#workflows.size < options.workflows.length) throw new Error('BUG: two machines have one kind')
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
        log.error({ kinds }, 'machines of unknown kinds are not run by this version of the program')
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
      log.warn({ workflows: freed.length }, 'took over machines of a runner that died')
      this.#wake.resolve()
    }
    await db.run(statements.forgetDead)
    const report = (state: 'opened' | 'closed') => (row: AlertRow) =>
      hooks.alert?.({ kind: row.kind, id: row.machine_id, phase: row.phase, state })
    for (const row of await db.rows(statements.openAlerts)) {
      // Not an error: it is an alert of its own, which closes by itself (`mote admin alerts`).
      log.warn({ kind: row.kind, id: row.machine_id, phase: row.phase }, 'a machine is overdue in its phase')
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
        this.#options.log.warn({ err: messageOf(error) }, 'cannot claim machines; trying again')
        await this.#pause(reconnectMs)
      }
    }
  }

  /** Fills the free slots; returns how long until there may be more to do. */
  async #claimFree(): Promise<number> {
    const { workers, batch, pollMs, db, statements } = this.#options
    const free = Math.min(batch, workers - this.#running.size)
    if (free <= 0 || this.#id === undefined) return pollMs
    const kinds = [...this.#workflows.keys()]
    const claiming = this.#claim(free, this.#id)
    const asked = db.one(statements.untilDue, [kinds])
    // What is claimed is run whatever becomes of the rest: nobody else would until the lease is over.
    asked.catch(() => undefined)
    const rows = await claiming
    for (const row of rows) this.#run(row)
    const { ms } = await asked
    // One that became due since the claim, or that somebody is committing: not at once, or that would be a busy loop.
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
    // One trip, where both get on one connection: then they are done in this order.
    const failed = (error: unknown) => {
      this.#options.log.warn({ err: messageOf(error) }, 'cannot look for machines; looking again')
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
    if (workflow === undefined) throw new Error(`BUG: claimed a machine of kind ${row.kind}, which nobody asked for`)
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
    if (outcome === 'failed') log.warn({ ...where, err: error }, 'a step failed and will be tried again')
    if (outcome === 'abandoned') log.error(where, 'a step ignored its signal and was left behind')
    if (outcome === 'lost')
      log.warn({ ...where, err: error }, 'a step ended after its lease was gone; nothing was written')
    hooks.step?.({ kind: row.kind, phase: row.phase, outcome, ms })
  }

  /** Until the time is up or somebody wakes us. */
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

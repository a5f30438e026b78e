/**
 * Runs one step of one workflow: loads the subject, diverts if `preempt` requests it, runs the handler, and commits its
 * decision if the lease is still held.
 */
import type { Db, Param, Statement } from '../db/db.ts'
import { DbUnavailable } from '../db/errors.ts'
import { backoffMs } from '../lib/backoff.ts'
import type { AnyWorkflow, Next, Write } from './workflow.ts'
import type { Settle } from './settle.ts'
import type { ClaimedRow, EngineStatements } from './statements.ts'

/**
 * Result of a step. `lost`: the lease was lost or the row is gone, so nothing was written. `abandoned`: the handler
 * ignored its abort signal. `released`: the runner is shutting down and has released the lease, so that another runner
 * can run the step.
 */
export type Outcome = 'go' | 'wait' | 'done' | 'diverted' | 'failed' | 'abandoned' | 'released' | 'lost'

export interface StepDeps {
  readonly db: Db
  readonly sql: EngineStatements
  /**
   * Commits steps in batches if they write nothing but their decision. If undefined, each step is committed separately.
   */
  readonly settle?: Settle
  /**
   * The handler's signal aborts after `stepTimeoutMs`; the runner abandons the handler after `giveUpMs`. Both are
   * shorter than the lease.
   */
  readonly stepTimeoutMs: number
  readonly giveUpMs: number
  /** Signal that aborts when the runner is shutting down and no longer waits for running steps. */
  readonly stopping: AbortSignal
  readonly random: () => number
}

export interface StepResult {
  readonly outcome: Outcome
  readonly error: unknown
}

export async function runStep(workflow: AnyWorkflow, row: ClaimedRow, deps: StepDeps): Promise<StepResult> {
  try {
    const next = await decide(workflow, row, deps)
    return { outcome: (await commit(row, next, deps)) ? next.outcome : 'lost', error: undefined }
  } catch (error) {
    return settleFailure(row, error, deps)
  }
}

interface Decision {
  readonly outcome: Outcome
  readonly next: Next<string>
}

async function decide(
  workflow: AnyWorkflow,
  row: ClaimedRow,
  deps: StepDeps,
): Promise<Decision & { readonly outcome: Outcome }> {
  return withDeadline(row, deps, async signal => {
    const subject: unknown = await workflow.load(row.id)
    if (subject === undefined) return { outcome: 'done', next: { do: 'done', write: undefined } }
    const diverted = workflow.preempt?.(subject)
    if (diverted !== undefined && diverted !== row.phase) {
      assertPhase(workflow, diverted, 'preempt')
      return { outcome: 'diverted', next: { do: 'go', to: diverted, write: undefined, deadlineMs: undefined } }
    }
    const handler = workflow.phases[row.phase]
    if (handler === undefined) {
      throw new Error(
        `workflow ${row.kind} is in phase "${row.phase}", which this version of the program does not have`,
      )
    }
    const { attempt, entered_at: enteredAt, now, phase } = row
    const next: Next<string> = await handler({ subject, phase, attempt, enteredAt, now, signal })
    if (next.do === 'go') assertEdge(workflow, row.phase, next.to)
    return { outcome: next.do, next: holding(workflow, subject, next) }
  })
}

/**
 * Puts the locks that the workflow's `hold` takes before the handler's writes. All statements are sent without waiting
 * and run in this order, so that all reads and writes come after the locks.
 */
function holding({ hold }: AnyWorkflow, subject: unknown, next: Next<string>): Next<string> {
  const { write } = next
  if (hold === undefined || write === undefined) return next
  return { ...next, write: async tx => void (await Promise.all([hold(tx, subject), write(tx)])) }
}

function assertPhase(workflow: AnyWorkflow, phase: string, who: string): void {
  if (!Object.hasOwn(workflow.phases, phase))
    throw new Error(`BUG: ${who} of workflow ${workflow.kind} names phase "${phase}", which it does not have`)
}

/**
 * Rejects an edge that the workflow does not declare. The compiler checks typed handlers, but a cast or plain
 * JavaScript bypasses it.
 */
function assertEdge(workflow: AnyWorkflow, from: string, to: string): void {
  assertPhase(workflow, to, `phase "${from}"`)
  if (!workflow.edges[from]?.includes(to))
    throw new Error(`BUG: workflow ${workflow.kind} has no edge from "${from}" to "${to}"`)
}

class StepAbandoned extends Error {}
class RunnerStopping extends Error {}

/**
 * Runs the step, and abandons it when its handler ignores the abort signal: its slot is freed, and its later result is
 * not committed.
 */
async function withDeadline<T>(row: ClaimedRow, deps: StepDeps, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const timeout = new AbortController()
  const { promise: gaveUp, reject } = Promise.withResolvers<never>()
  const what = `${row.kind} ${row.id} in phase ${row.phase}`
  const softly = setTimeout(
    () => timeout.abort(new Error(`${what} took longer than ${deps.stepTimeoutMs} ms`)),
    deps.stepTimeoutMs,
  )
  const hard = setTimeout(
    () => reject(new StepAbandoned(`${what} did not end ${deps.giveUpMs} ms after it began`)),
    deps.giveUpMs,
  )
  const onStop = () => reject(new RunnerStopping('the runner stops'))
  deps.stopping.addEventListener('abort', onStop)
  if (deps.stopping.aborted) onStop()
  try {
    return await Promise.race([work(AbortSignal.any([timeout.signal, deps.stopping])), gaveUp])
  } finally {
    clearTimeout(softly)
    clearTimeout(hard)
    deps.stopping.removeEventListener('abort', onStop)
  }
}

async function commit(row: ClaimedRow, { next }: Decision, deps: StepDeps): Promise<boolean> {
  const { db, sql, settle } = deps
  const fence = [row.kind, row.id, row.lease] as const
  switch (next.do) {
    case 'go':
      if (settle && !next.write) return settle.go({ claim: row, to: next.to, deadlineMs: next.deadlineMs })
      return fenced(db, sql.go, [...fence, next.to, next.deadlineMs ?? null], next.write)
    case 'wait':
      if (settle && !next.write) return settle.wait({ claim: row, ms: next.ms })
      return fenced(db, sql.wait, [...fence, Math.max(0, next.ms), row.pokes], next.write)
    case 'done':
      return fenced(db, sql.done, fence, next.write)
  }
}

class FenceLost extends Error {}

/**
 * Commits a decision if the lease is still held, and returns whether it is. A decision without other writes is
 * committed with one statement, any other one in a transaction that checks the lease first.
 */
async function fenced(
  db: Db,
  statement: Statement<{ fenced: number }>,
  params: readonly Param[],
  write: Write | undefined,
): Promise<boolean> {
  if (write === undefined) return (await db.one(statement, params)).fenced === 1
  try {
    await db.tx(async tx => {
      if ((await tx.one(statement, params)).fenced !== 1) throw new FenceLost()
      await write(tx)
    })
    return true
  } catch (error) {
    if (error instanceof FenceLost) return false
    throw error
  }
}

/**
 * Pause between attempts to store a failure while the database is unavailable. After the last attempt, the runner lets
 * the lease expire.
 */
const retryMs = 200
const retries = 25

async function settleFailure(row: ClaimedRow, error: unknown, deps: StepDeps): Promise<StepResult> {
  const stopping = error instanceof RunnerStopping
  const outcome = stopping ? 'released' : error instanceof StepAbandoned ? 'abandoned' : 'failed'
  const fence = [row.kind, row.id, row.lease]
  const pauseMs = backoffMs(row.attempt, deps.random())
  for (let tries = 0; ; tries++) {
    try {
      const { fenced: rows } = stopping
        ? await deps.db.one(deps.sql.release, fence)
        : await deps.db.one(deps.sql.fail, [...fence, pauseMs, row.pokes, describe(error)])
      return { outcome: rows === 1 ? outcome : 'lost', error }
    } catch (writing) {
      if (!(writing instanceof DbUnavailable) || tries === retries || stopping)
        return { outcome: 'lost', error: writing }
      await new Promise(resolve => setTimeout(resolve, retryMs))
    }
  }
}

const maxErrorLength = 2_000

/** Joins the messages of an error and its causes. Omits stacks, because users see the result. */
export function describe(error: unknown): string {
  const messages: string[] = []
  for (
    let at: unknown = error;
    at !== undefined && at !== null && messages.length < 10;
    at = at instanceof Error ? at.cause : undefined
  ) {
    const message = at instanceof Error ? at.message : String(at)
    if (!messages.some(said => said.includes(message))) messages.push(message)
  }
  return messages.join(': ').slice(0, maxErrorLength)
}

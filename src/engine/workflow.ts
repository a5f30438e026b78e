/**
 * Defines workflows, the form of all long-running work on one resource. A workflow is a row `{kind, id, phase, ...}` in
 * PostgreSQL, created in the transaction that creates the resource. A runner claims due rows, calls the handler of the
 * row's phase without an open transaction, and commits the handler's decision only if it still holds the row's lease.
 * Handlers are level-triggered: they look at the current subject and return what to do next. They run again after a
 * crash, so they must be idempotent.
 * This file has only types and constructors, and depends on neither PostgreSQL nor VMs; `runner.ts` runs workflows.
 */
import type { Tx } from '../db/db.ts'

/** Writes of a handler. They run in the transaction that commits its decision, after the check of the lease. */
export type Write = (tx: Tx) => Promise<void>

/** The decision of a handler. `P` is the union of the phases that it may enter. */
export type Next<P extends string> =
  | { readonly do: 'go'; readonly to: P; readonly write: Write | undefined; readonly deadlineMs: number | undefined }
  | { readonly do: 'wait'; readonly ms: number; readonly write: Write | undefined }
  | { readonly do: 'done'; readonly write: Write | undefined }

/**
 * Enters phase `to`. If the workflow is still in that phase after `deadlineMs`, an alert opens; it closes once the
 * workflow leaves the phase.
 */
export function go<P extends string>(to: P, write?: Write, deadlineMs?: number): Next<P> {
  return { do: 'go', to, write, deadlineMs }
}
/** Stays in the phase and runs the handler again after `ms`, or earlier when the workflow is poked. */
export function wait(ms: number, write?: Write): Next<never> {
  return { do: 'wait', ms, write }
}
/** Ends the workflow: its row is deleted in the same commit. */
export function done(write?: Write): Next<never> {
  return { do: 'done', write }
}

export type Edges = { readonly [phase: string]: readonly string[] }

export interface Step<Subject> {
  readonly subject: Subject
  readonly phase: string
  /** Number of consecutive failed attempts since the phase was entered or a handler last returned `wait`. */
  readonly attempt: number
  /** Time at which the workflow entered the phase, by the database's clock. */
  readonly enteredAt: Date
  readonly now: Date
  /**
   * Signal that aborts when the step runs too long or the runner stops without waiting. Handlers pass it to everything
   * that can wait.
   */
  readonly signal: AbortSignal
}

export interface WorkflowDefinition<Subject, E extends Edges> {
  readonly kind: string
  /** Allowed transitions. `go` to any other phase does not compile. */
  readonly edges: E
  /** Loads the current subject; undefined if it no longer exists (the workflow then ends). */
  load(id: string): Promise<Subject | undefined>
  /** Returns the phase to divert to before the handler runs, for example a deletion. Ignored in that phase itself. */
  preempt?(subject: Subject): (keyof E & string) | undefined
  /** Locks rows that come early in the lock order (docs/engine.md); runs at the beginning of every write. */
  hold?(tx: Tx, subject: Subject): Promise<unknown>
  readonly phases: { readonly [P in keyof E & string]: (step: Step<Subject>) => Promise<Next<E[P][number]>> }
}

/** A definition without its phase types, as used by the runner and by tests that enumerate workflows. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type AnyWorkflow = WorkflowDefinition<any, any>

/**
 * Defines a workflow: `workflow<Vm>()({...})`. Two calls, so that the subject's type is given explicitly while the
 * edges are inferred as literals.
 */
export function workflow<Subject>() {
  return <const E extends { readonly [P in keyof E]: readonly (keyof E & string)[] } & Edges>(
    definition: WorkflowDefinition<Subject, E>,
  ): WorkflowDefinition<Subject, E> => definition
}

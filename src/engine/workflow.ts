/**
 * Machine: the form of all long-running work on one resource. A row `{kind, id, phase, ...}` in Postgres, made in the
 * transaction that makes the resource; a runner claims due rows, calls the handler of the row's phase with no
 * transaction open, and commits what the handler returned behind a fence. Level-triggered: a handler looks at the
 * subject as it is now and says what to do next; it is run again after a crash, so it must be idempotent.
 *
 * This file is types and three constructors: it knows neither Postgres nor VMs. `runner.ts` gives it life.
 */
import type { Tx } from '../db/db.ts'

/** Runs inside the commit of a step, after the fence. */
export type Write = (tx: Tx) => Promise<void>

/** What a handler decides. `P` is the union of phases it may go to. */
export type Next<P extends string> =
  | { readonly do: 'go'; readonly to: P; readonly write: Write | undefined; readonly deadlineMs: number | undefined }
  | { readonly do: 'wait'; readonly ms: number; readonly write: Write | undefined }
  | { readonly do: 'done'; readonly write: Write | undefined }

/** Enter phase `to`. When it is still there after `deadlineMs`, an alert opens (and closes by itself once it leaves). */
export function go<P extends string>(to: P, write?: Write, deadlineMs?: number): Next<P> {
  return { do: 'go', to, write, deadlineMs }
}
/** Stay; look again after `ms`, or as soon as somebody pokes. */
export function wait(ms: number, write?: Write): Next<never> {
  return { do: 'wait', ms, write }
}
/** The machine's work is over: its row is removed in the same commit. */
export function done(write?: Write): Next<never> {
  return { do: 'done', write }
}

export type Edges = { readonly [phase: string]: readonly string[] }

export interface Step<Subject> {
  readonly subject: Subject
  readonly phase: string
  /** Failed tries in a row: since the phase was entered, or since a handler last answered `wait`. */
  readonly attempt: number
  /** When the phase was entered, by the database's clock. */
  readonly enteredAt: Date
  readonly now: Date
  /** Aborts when the lease is lost or the runner shuts down hard; pass it to everything that can wait. */
  readonly signal: AbortSignal
}

export interface WorkflowDefinition<Subject, E extends Edges> {
  readonly kind: string
  /** Legal moves. `go` to anything else does not compile. */
  readonly edges: E
  /** The subject, fresh; undefined when its row is gone (the machine then ends by itself). */
  load(id: string): Promise<Subject | undefined>
  /** Diverts from any phase before its handler runs (deletion wins). Ignored in the phase it names. */
  preempt?(subject: Subject): (keyof E & string) | undefined
  /** Rows that every write of it begins by locking: those that come early in the order of locks (docs/engine.md). */
  hold?(tx: Tx, subject: Subject): Promise<unknown>
  readonly phases: { readonly [P in keyof E & string]: (step: Step<Subject>) => Promise<Next<E[P][number]>> }
}

/** A definition whose phases have been forgotten: what the runner and the tests that enumerate hold. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type AnyWorkflow = WorkflowDefinition<any, any>

/** `machine<Vm>()({...})`: two calls so that the subject is given and the edges are inferred as literals. */
export function workflow<Subject>() {
  return <const E extends { readonly [P in keyof E]: readonly (keyof E & string)[] } & Edges>(
    definition: WorkflowDefinition<Subject, E>,
  ): WorkflowDefinition<Subject, E> => definition
}

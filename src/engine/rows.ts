/** Operations on workflows for the rest of the control plane: create, advance, poke, read. */
import { runLast, type Sql, type Tx } from '../db/db.ts'
import { engineStatements as sql, type WorkflowRow } from './statements.ts'

export interface CreateOptions {
  /** Delay before the first step, in ms; default: none. A caller sets it if it is about to do the first step itself. */
  readonly afterMs?: number
  /** Time that the workflow may spend in its first phase before an alert opens, in ms; default: no limit. */
  readonly deadlineMs?: number
}

/**
 * Creates the workflow of a resource, in the transaction that creates the resource.
 * @throws StatementError (a unique violation) when the resource already has a workflow of this kind.
 */
export async function createWorkflow(
  tx: Tx,
  kind: string,
  id: string,
  phase: string,
  options: CreateOptions = {},
): Promise<void> {
  await tx.one(sql.create, [kind, id, phase, options.afterMs ?? 0, options.deadlineMs ?? null])
}

/**
 * Moves a workflow to another phase in the transaction of a caller that does the work of the current step itself.
 * Succeeds only while no runner holds the workflow, so that the next step gets the result of the caller's work.
 * @param move.afterMs delay before the next step
 * @returns false if the workflow is in another phase or a runner holds it. The caller should then poke the workflow and
 * leave the work to its step.
 */
export async function advanceWorkflow(
  tx: Tx,
  kind: string,
  id: string,
  move: { readonly from: string; readonly to: string; readonly afterMs: number; readonly deadlineMs?: number },
): Promise<boolean> {
  const moved = await tx.maybe(sql.advance, [kind, id, move.from, move.to, move.afterMs, move.deadlineMs ?? null])
  return moved !== undefined
}

/**
 * Wakes a workflow because something that it depends on has changed. Takes effect with the commit and is never lost: if
 * a step is already running, another one follows it. Poking a missing workflow does nothing.
 */
export function poke(tx: Sql, kind: string, id: string): Promise<void> {
  return pokeMany(tx, kind, [id])
}

export async function pokeMany(tx: Sql, kind: string, ids: readonly string[]): Promise<void> {
  await runLast(tx, sql.poke, [kind, ids])
}

export async function readWorkflow(from: Sql, kind: string, id: string): Promise<WorkflowRow | undefined> {
  return from.maybe(sql.read, [kind, id])
}

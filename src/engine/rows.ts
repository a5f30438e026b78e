/** What features do with machines: make one, poke one, look at one. */
import { runLast, type Sql, type Tx } from '../db/db.ts'
import { engineStatements as sql, type WorkflowRow } from './statements.ts'

export interface CreateOptions {
  /** Until its first step, ms; absent: at once. For one whose first step somebody else is about to do. */
  readonly afterMs?: number
  /** Longest stay in the first phase before an alert opens. */
  readonly deadlineMs?: number
}

/**
 * Makes the machine of a resource, in the transaction that makes the resource.
 * @throws StatementError (a unique violation) when the resource has a machine of this kind already.
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
 * Takes a machine from one phase to another in the transaction of somebody else, who does what its step would have done. Only
 * where no runner has it: what is true here is seen by the next step.
 * @param move.afterMs until its next look
 * @returns false: it is in another phase, or somebody has it. Poke it, and leave it to its step.
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
 * Wakes a machine: something it looks at has changed. Takes effect with the commit and is never lost: a step that is
 * running already is followed by another one. Poking what does not exist does nothing.
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

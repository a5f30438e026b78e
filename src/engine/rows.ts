/** What features do with machines: make one, poke one, look at one. */
import { runLast, type Sql, type Tx } from '../db/db.ts'
import { engineStatements as sql, type MachineRow } from './statements.ts'

export interface CreateOptions {
  /** First run; now when absent. */
  readonly wakeAt?: Date
  /** Longest stay in the first phase before an alert opens. */
  readonly deadlineMs?: number
}

/**
 * Makes the machine of a resource, in the transaction that makes the resource.
 * @throws StatementError (a unique violation) when the resource has a machine of this kind already.
 */
export async function createMachine(
  tx: Tx,
  kind: string,
  id: string,
  phase: string,
  options: CreateOptions = {},
): Promise<void> {
  await tx.one(sql.create, [kind, id, phase, options.wakeAt ?? null, options.deadlineMs ?? null])
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

export async function readMachine(from: Sql, kind: string, id: string): Promise<MachineRow | undefined> {
  return from.maybe(sql.read, [kind, id])
}

/**
 * Commits steps that change nothing but the row of their own workflow. Steps that end at the same time share one
 * statement: with one statement per step, nine tenths of all statements in a thousand placements were such commits
 * (docs/decisions/0037-batched-placement.md).
 */
import type { Param, Sql, Statement } from '../db/db.ts'
import { DbUnavailable } from '../db/errors.ts'
import { batched } from '../lib/batched.ts'
import type { ClaimedRow, EngineStatements, Fenced } from './statements.ts'

type Claim = Pick<ClaimedRow, 'kind' | 'id' | 'lease' | 'pokes'>

/**
 * Commits the decisions `go` and `wait`. Both methods resolve with false when another runner has taken over the lease.
 * @throws errors of the database
 */
export interface Settle {
  go(step: { readonly claim: Claim; readonly to: string; readonly deadlineMs: number | undefined }): Promise<boolean>
  wait(step: { readonly claim: Claim; readonly ms: number }): Promise<boolean>
}

type Asked = Pick<Sql, 'one' | 'rows'>

export function createSettle(db: Asked, sql: Pick<EngineStatements, 'go' | 'goAll' | 'wait' | 'waitAll'>): Settle {
  return {
    go: together(db, { one: sql.go, many: sql.goAll }, ({ to, deadlineMs }) => [to, deadlineMs ?? null]),
    wait: together(db, { one: sql.wait, many: sql.waitAll }, ({ claim, ms }) => [Math.max(0, ms), claim.pokes]),
  }
}

interface Forms {
  readonly one: Statement<{ fenced: number }>
  readonly many: Statement<Fenced>
}

type Outcome = { readonly fenced: boolean } | { readonly failed: DbUnavailable }

/**
 * Limits: at most 64 steps in a statement, and at most 2 statements at a time. If a statement fails, `batched` retries
 * its steps one by one. A step that was committed although the response was lost then reports a lost lease and writes
 * nothing.
 */
const limits = { most: 64, atOnce: 2 }

function together<S extends { readonly claim: Claim }>(
  db: Asked,
  forms: Forms,
  paramsOf: (step: S) => readonly [Param, Param],
): (step: S) => Promise<boolean> {
  const commit = batched(async (steps: readonly S[]): Promise<Outcome[]> => {
    try {
      return (await settle(db, forms, steps, paramsOf)).map(fenced => ({ fenced }))
    } catch (error) {
      // Do not retry the steps one by one: while the database is unavailable, each commit would fail after waiting for
      // a connection.
      if (error instanceof DbUnavailable) return steps.map(() => ({ failed: error }))
      throw error
    }
  }, limits)
  return async step => {
    const outcome = await commit(step)
    if ('failed' in outcome) throw outcome.failed
    return outcome.fenced
  }
}

async function settle<S extends { readonly claim: Claim }>(
  db: Asked,
  { one, many }: Forms,
  steps: readonly S[],
  paramsOf: (step: S) => readonly [Param, Param],
): Promise<boolean[]> {
  const rows = steps.map(step => [step.claim.kind, step.claim.id, step.claim.lease, ...paramsOf(step)] as const)
  const [only] = rows
  if (only && rows.length === 1) return [(await db.one(one, only)).fenced === 1]
  const columns = ([0, 1, 2, 3, 4] as const).map(at => rows.map(row => row[at]))
  const fenced = new Set((await db.rows(many, columns)).map(keyOf))
  return steps.map(({ claim }) => fenced.has(keyOf(claim)))
}

/** The key includes the lease, because a superseded step and its successor in the same workflow may be in one batch. */
const keyOf = ({ kind, id, lease }: Fenced) => `${kind} ${id} ${lease}`

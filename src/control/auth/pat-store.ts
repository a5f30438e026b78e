/** Personal access tokens. */
import { type Sql, type Tx, statement } from '../../db/db.ts'

export interface PatRow {
  readonly id: string
  readonly accountId: string
  readonly name: string
  readonly lastFour: string
  readonly scopes: readonly string[]
  readonly project: string | null
  readonly createdAt: Date
  readonly lastUsedAt: Date | null
  readonly expiresAt: Date | null
}

const columns = `t.id, t.account_id AS "accountId", t.name, t.last_four AS "lastFour", t.scopes,
  (SELECT slug FROM project WHERE id = t.project_id) AS project,
  t.created_at AS "createdAt", t.last_used_at AS "lastUsedAt", t.expires_at AS "expiresAt"`

// A token bound to a project lists only tokens of that project, not all tokens of the account.
const list = statement<PatRow>(
  'auth.listPats',
  `SELECT ${columns} FROM pat t WHERE t.account_id = $1 AND ($2::uuid IS NULL OR t.project_id = $2) ORDER BY t.id DESC`,
)
// Locking and counting are two statements: a count within the locking statement would use a snapshot from before the
// lock was acquired.
const lockAccount = statement('auth.lockForPat', `SELECT id FROM account WHERE id = $1 FOR NO KEY UPDATE`)
const count = statement<{ tokens: number }>(
  'auth.countPats',
  `SELECT count(*) AS tokens FROM pat WHERE account_id = $1`,
)
const insert = statement<PatRow>(
  'auth.insertPat',
  `INSERT INTO pat AS t (id, account_id, project_id, name, hash, last_four, scopes, expires_at)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING ${columns}`,
)
const remove = statement<{ name: string }>(
  'auth.removePat',
  `DELETE FROM pat WHERE id = $1 AND account_id = $2 AND ($3::uuid IS NULL OR project_id = $3) RETURNING name`,
)

export const patsOf = (sql: Sql, accountId: string, boundProjectId: string | null) =>
  sql.rows(list, [accountId, boundProjectId])
/** Locks the account and returns the number of its tokens. The number cannot change until the transaction ends. */
export async function countPatsLocked(tx: Tx, accountId: string): Promise<number> {
  await tx.run(lockAccount, [accountId])
  return (await tx.one(count, [accountId])).tokens
}

export interface NewPat {
  readonly id: string
  readonly accountId: string
  readonly projectId: string | null
  readonly name: string
  readonly hash: Buffer
  readonly lastFour: string
  readonly scopes: readonly string[]
  readonly expiresAt: Date | null
}
export const addPat = (tx: Tx, p: NewPat) =>
  tx.one(insert, [p.id, p.accountId, p.projectId, p.name, p.hash, p.lastFour, p.scopes, p.expiresAt])
export const removePat = (tx: Tx, id: string, accountId: string, boundProjectId: string | null) =>
  tx.maybe(remove, [id, accountId, boundProjectId])

/** Statements for sessions, refresh tokens, captchas and failed sign-ins. */
import { type Db, type Sql, type Tx, statement } from '../../db/db.ts'

// The session is inserted only if the account still has the epoch that was read before the password was verified: a
// concurrent password change prevents the session.
const insertSession = statement<{ id: string }>(
  'auth.insertSession',
  `INSERT INTO session (id, account_id, ip_address, user_agent, created_at)
   SELECT $1, a.id, $4, $5, $6 FROM account a WHERE a.id = $2 AND a.epoch = $3 FOR SHARE
   RETURNING id`,
)
const insertRefresh = statement(
  'auth.insertRefresh',
  `INSERT INTO refresh_token (hash, session_id, account_id, expires_at) VALUES ($1, $2, $3, $4)`,
)
// Of several refreshes with one token, this conditional UPDATE returns a row to exactly one. The new token belongs to
// the same session, so a revocation of the session also invalidates the new token, whichever of the two commits first.
const rotate = statement<{ sessionId: string; accountId: string; epoch: number }>(
  'auth.rotateRefresh',
  `WITH spent AS (
     UPDATE refresh_token t SET used_at = $3 FROM session s
     WHERE t.hash = $1 AND t.used_at IS NULL AND t.expires_at > $3 AND s.id = t.session_id AND s.revoked_at IS NULL
     RETURNING t.session_id, t.account_id
   ), fresh AS (
     INSERT INTO refresh_token (hash, session_id, account_id, expires_at)
     SELECT $2, session_id, account_id, $4 FROM spent
   )
   SELECT spent.session_id AS "sessionId", spent.account_id AS "accountId", a.epoch
   FROM spent JOIN account a ON a.id = spent.account_id`,
)
const findRefresh = statement<{
  sessionId: string
  accountId: string
  epoch: number
  used: boolean
  expired: boolean
  revoked: boolean
}>(
  'auth.findRefresh',
  `SELECT t.session_id AS "sessionId", t.account_id AS "accountId", a.epoch, t.used_at IS NOT NULL AS used,
     t.expires_at <= $2 AS expired, s.revoked_at IS NOT NULL AS revoked
   FROM refresh_token t JOIN session s ON s.id = t.session_id JOIN account a ON a.id = t.account_id WHERE t.hash = $1`,
)
const revokeSession = statement(
  'auth.revokeSession',
  `UPDATE session SET revoked_at = now() WHERE id = $1 AND revoked_at IS NULL`,
)
const revokeSessions = statement(
  'auth.revokeSessions',
  `UPDATE session SET revoked_at = now() WHERE account_id = $1 AND revoked_at IS NULL`,
)
export interface SessionRow {
  readonly id: string
  readonly ipAddress: string | null
  readonly userAgent: string | null
  readonly createdAt: Date
}
// A session without a usable refresh token ends with its JWT, so it is not listed.
const listLive = statement<SessionRow>(
  'auth.listSessions',
  `SELECT s.id, s.ip_address AS "ipAddress", s.user_agent AS "userAgent", s.created_at AS "createdAt" FROM session s
   WHERE s.account_id = $1 AND s.revoked_at IS NULL AND EXISTS (
     SELECT 1 FROM refresh_token t WHERE t.session_id = s.id AND t.used_at IS NULL AND t.expires_at > $2)
   ORDER BY s.id DESC`,
)
const revokeOwnSession = statement(
  'auth.revokeOwnSession',
  `UPDATE session SET revoked_at = now() WHERE id = $1 AND account_id = $2 AND revoked_at IS NULL`,
)
const sessionBegan = statement<{ createdAt: Date }>(
  'auth.sessionBegan',
  `SELECT created_at AS "createdAt" FROM session WHERE id = $1 AND revoked_at IS NULL`,
)
const familiarAddress = statement<{ any: boolean; familiar: boolean }>(
  'auth.familiarAddress',
  `SELECT EXISTS (SELECT 1 FROM session WHERE account_id = $1) AS any,
     EXISTS (SELECT 1 FROM session WHERE account_id = $1 AND ip_address = $2) AS familiar`,
)

export interface NewSession {
  readonly id: string
  readonly accountId: string
  readonly epoch: number
  readonly ip: string | null
  readonly userAgent: string | null
  readonly refreshHash: Buffer
  readonly refreshExpiresAt: Date
  /** Time of the sign-in, from the clock that is also used to measure its age. */
  readonly createdAt: Date
}

/**
 * Creates a session with its refresh token. Returns false if the account is deleted or its password changed since
 * `epoch` was read.
 */
export async function openSession(tx: Tx, s: NewSession): Promise<boolean> {
  const row = await tx.maybe(insertSession, [s.id, s.accountId, s.epoch, s.ip, s.userAgent, s.createdAt])
  if (!row) return false
  await tx.run(insertRefresh, [s.refreshHash, s.id, s.accountId, s.refreshExpiresAt])
  return true
}

/**
 * Exchanges a refresh token. Returns the session that it belongs to; undefined if the token was used, revoked or has
 * expired.
 */
export const rotateRefresh = (tx: Tx, spent: Buffer, fresh: Buffer, now: Date, expiresAt: Date) =>
  tx.maybe(rotate, [spent, fresh, now, expiresAt])
export const refreshByHash = (sql: Sql, hash: Buffer, now: Date) => sql.maybe(findRefresh, [hash, now])
export const endSession = (tx: Tx, id: string) => tx.run(revokeSession, [id])
export const liveSessions = (sql: Sql, accountId: string, now: Date) => sql.rows(listLive, [accountId, now])
/** Ends a session of the account. Returns false if it has already ended or belongs to another account. */
export const endOwnSession = async (tx: Tx, id: string, accountId: string) =>
  (await tx.run(revokeOwnSession, [id, accountId])) === 1
export const endAllSessions = (tx: Tx, accountId: string) => tx.run(revokeSessions, [accountId])
export const sessionBeganAt = async (sql: Sql, id: string) => (await sql.maybe(sessionBegan, [id]))?.createdAt
/** Returns whether the account has signed in before: from anywhere (`any`), and from this IP address (`familiar`). */
export const signInsBefore = (sql: Sql, accountId: string, ip: string) => sql.one(familiarAddress, [accountId, ip])

const insertCaptcha = statement(
  'auth.insertCaptcha',
  `INSERT INTO captcha (id, answer_hash, expires_at, work_bits) VALUES ($1, $2, $3, $4)`,
)
const takeCaptcha = statement<{ answerHash: Buffer; expiresAt: Date; workBits: number }>(
  'auth.takeCaptcha',
  `DELETE FROM captcha WHERE id = $1 RETURNING answer_hash AS "answerHash", expires_at AS "expiresAt", work_bits AS "workBits"`,
)
export const addCaptcha = (db: Db, id: string, answerHash: Buffer, expiresAt: Date, workBits: number) =>
  db.run(insertCaptcha, [id, answerHash, expiresAt, workBits])
/** Deletes the captcha and returns it, before the answer is checked: each captcha allows one try. */
export const spendCaptcha = (db: Db, id: string) => db.maybe(takeCaptcha, [id])

const readBackoff = statement<{ blockedUntil: Date }>(
  'auth.readBackoff',
  `SELECT max(blocked_until) AS "blockedUntil" FROM login_backoff WHERE key = ANY($1::bytea[]) HAVING count(*) > 0`,
)
// Counts a failed sign-in. The count starts again at 1 if the last failure has expired. The caller computes the delay
// from the count.
const countFailure = statement<{ failures: number }>(
  'auth.countFailure',
  `INSERT INTO login_backoff (key, failures, blocked_until, updated_at) VALUES ($1, 1, $2, $2)
   ON CONFLICT (key) DO UPDATE SET updated_at = $2,
     failures = CASE WHEN login_backoff.updated_at < $3 THEN 1 ELSE login_backoff.failures + 1 END
   RETURNING failures`,
)
const block = statement(
  'auth.blockLogin',
  `UPDATE login_backoff SET blocked_until = greatest(blocked_until, $2) WHERE key = $1`,
)
const clearBackoff = statement('auth.clearBackoff', `DELETE FROM login_backoff WHERE key = ANY($1::bytea[])`)

export const blockedUntil = async (db: Db, keys: readonly Buffer[]) =>
  (await db.maybe(readBackoff, [keys]))?.blockedUntil
export const addFailure = async (tx: Tx, key: Buffer, now: Date, forgetBefore: Date) =>
  (await tx.one(countFailure, [key, now, forgetBefore])).failures
export const blockUntil = (tx: Tx, key: Buffer, until: Date) => tx.run(block, [key, until])
export const forgetFailures = (db: Db, keys: readonly Buffer[]) => db.run(clearBackoff, [keys])

/** Statements for mailed links. */
import { type Sql, type Tx, statement } from '../../db/db.ts'

export type LinkPurpose = 'verify' | 'reset' | 'change'

export interface Link {
  readonly accountId: string
  readonly purpose: LinkPurpose
  readonly email: string
  readonly epoch: number
}

// One statement serves e-mail addresses with and without an account, so both cause the same work. A link that is
// younger than a minute is not replaced, so that an inbox cannot be flooded.
const put = statement<{ accountId: string; email: string; current: string }>(
  'auth.putLink',
  `INSERT INTO email_link AS l (account_id, purpose, hash, email, epoch, created_at, expires_at)
   SELECT a.id, $2, $3, coalesce($4, a.email), a.epoch, $5, $6 FROM account a WHERE a.email = $1
   ON CONFLICT (account_id, purpose) DO UPDATE SET hash = excluded.hash, email = excluded.email, epoch = excluded.epoch,
     created_at = excluded.created_at, expires_at = excluded.expires_at WHERE l.created_at <= $7
   RETURNING account_id AS "accountId", email, $1::text AS current`,
)
const renew = statement<{ email: string }>(
  'auth.renewLink',
  `UPDATE email_link l SET hash = $3, epoch = a.epoch, created_at = $4, expires_at = $5 FROM account a
   WHERE a.id = l.account_id AND a.email = $1 AND l.purpose = $2 RETURNING l.email`,
)
const find = statement<Link>(
  'auth.findLink',
  `SELECT account_id AS "accountId", purpose, email, epoch FROM email_link WHERE hash = $1 AND expires_at > $2`,
)
const take = statement<Link>(
  'auth.takeLink',
  `DELETE FROM email_link WHERE hash = $1 AND expires_at > $2 RETURNING account_id AS "accountId", purpose, email, epoch`,
)
const dropAll = statement('auth.dropLinks', `DELETE FROM email_link WHERE account_id = $1`)
const verify = statement(
  'auth.verifyEmail',
  `UPDATE account SET email_verified_at = coalesce(email_verified_at, $3) WHERE id = $1 AND email = $2`,
)
const changeEmail = statement<{ before: string }>(
  'auth.changeEmail',
  `UPDATE account a SET email = $2, email_verified_at = $4 FROM (SELECT id, email FROM account WHERE id = $1 FOR UPDATE) old
   WHERE a.id = old.id AND a.epoch = $3 RETURNING old.email AS before`,
)

export interface NewLink {
  readonly purpose: LinkPurpose
  readonly hash: Buffer
  /** The new e-mail address of the account, for the purpose `change`. */
  readonly email: string | null
  readonly now: Date
  readonly expiresAt: Date
  /** An existing link is replaced only if it was created before `olderThan`. */
  readonly olderThan: Date
}

/**
 * Creates a link.
 * @param of e-mail address of the account
 * @returns undefined if there is no account, or its last link was created after `olderThan`
 */
export const putLink = (tx: Tx, of: string, l: NewLink) =>
  tx.maybe(put, [of, l.purpose, l.hash, l.email, l.now, l.expiresAt, l.olderThan])
/** Replaces the secret of an existing link. Returns undefined if the account has no such link. */
export const renewLink = (tx: Tx, of: string, l: NewLink) =>
  tx.maybe(renew, [of, l.purpose, l.hash, l.now, l.expiresAt])
export const linkByHash = (sql: Sql, hash: Buffer, now: Date) => sql.maybe(find, [hash, now])
/** Deletes the link and returns it; undefined if another request has used it in the meantime. */
export const takeLink = (tx: Tx, hash: Buffer, now: Date) => tx.maybe(take, [hash, now])
export const dropLinks = (tx: Tx, accountId: string) => tx.run(dropAll, [accountId])
/** Marks the account's e-mail address as verified. Returns false if the account now has a different address. */
export const markVerified = async (tx: Tx, accountId: string, email: string, now: Date) =>
  (await tx.run(verify, [accountId, email, now])) === 1
/**
 * Changes the e-mail address and returns the previous one; undefined if the password was changed after the link was
 * created.
 */
export const setEmail = async (tx: Tx, accountId: string, email: string, epoch: number, now: Date) =>
  (await tx.maybe(changeEmail, [accountId, email, epoch, now]))?.before

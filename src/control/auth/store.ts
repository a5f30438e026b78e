/** Statements for accounts and their second factor. */
import { type Db, type Sql, type Tx, statement } from '../../db/db.ts'

export interface AccountRow {
  readonly id: string
  readonly email: string
  readonly firstName: string | null
  readonly lastName: string | null
  readonly avatarUrl: string | null
  readonly emailNotifications: boolean
  readonly marketingEmails: boolean
  readonly role: 'Admin' | 'User'
  readonly epoch: number
  readonly totpEnabled: boolean
  /** True if a link that was mailed to the account's e-mail address was opened. */
  readonly emailVerified: boolean
  /** IPv6 prefix of the default project's network. */
  readonly ipv6Prefix: string | null
}

export interface CredentialRow extends AccountRow {
  readonly passwordHash: string
  /** Encrypted secret of the second factor. If it is set but `totpEnabled` is false, the setup is not verified yet. */
  readonly totpSecret: Buffer | null
}

const profile = `a.id, a.email, a.first_name AS "firstName", a.last_name AS "lastName", a.avatar_url AS "avatarUrl",
  a.email_notifications AS "emailNotifications", a.marketing_emails AS "marketingEmails", a.role, a.epoch,
  a.totp_enabled AS "totpEnabled", a.email_verified_at IS NOT NULL AS "emailVerified",
  (SELECT p.ipv6_prefix FROM project p WHERE p.id = a.default_project_id) AS "ipv6Prefix"`
const secrets = `a.password_hash AS "passwordHash", a.totp_secret AS "totpSecret"`

const byId = statement<AccountRow>('auth.accountById', `SELECT ${profile} FROM account a WHERE a.id = $1`)
const withSecretsById = statement<CredentialRow>(
  'auth.credentialsById',
  `SELECT ${profile}, ${secrets} FROM account a WHERE a.id = $1`,
)
const withSecretsByEmail = statement<CredentialRow>(
  'auth.credentialsByEmail',
  `SELECT ${profile}, ${secrets} FROM account a WHERE a.email = $1`,
)
const anyAccount = statement<{ exists: boolean }>('auth.anyAccount', `SELECT EXISTS (SELECT 1 FROM account) AS exists`)
const lockFirst = statement('auth.lockFirst', `SELECT pg_advisory_xact_lock(hashtextextended('first-account', 0))`)
const insertAccount = statement<{ id: string }>(
  'auth.insertAccount',
  `INSERT INTO account (id, email, password_hash, first_name, last_name, role) VALUES ($1, $2, $3, $4, $5, $6)
   ON CONFLICT (email) DO NOTHING RETURNING id`,
)
const updateProfile = statement(
  'auth.updateProfile',
  `UPDATE account SET email_notifications = coalesce($2, email_notifications), first_name = coalesce($3, first_name),
     last_name = coalesce($4, last_name), marketing_emails = coalesce($5, marketing_emails),
     avatar_url = CASE WHEN $6::text IS NULL THEN avatar_url ELSE nullif($6::text, '') END
   WHERE id = $1`,
)
// Of two concurrent password changes, the second one fails, because the epoch that it has read is outdated.
const changePassword = statement(
  'auth.changePassword',
  `UPDATE account SET password_hash = $3, epoch = epoch + 1 WHERE id = $1 AND epoch = $2`,
)
const lockAdmins = statement<{ id: string }>(
  'auth.lockAdmins',
  `SELECT id FROM account WHERE role = 'Admin' ORDER BY id FOR UPDATE`,
)
const otherAccounts = statement<{ exists: boolean }>(
  'auth.otherAccounts',
  `SELECT EXISTS (SELECT 1 FROM account WHERE id <> $1) AS exists`,
)
const deleteAccount = statement('auth.deleteAccount', `DELETE FROM account WHERE id = $1`)
const notifyRevoked = statement('auth.notifyRevoked', `SELECT pg_notify('account_revoked', $1)`)

const setPendingTotp = statement(
  'auth.setPendingTotp',
  `UPDATE account SET totp_secret = $2, totp_last_step = 0 WHERE id = $1 AND NOT totp_enabled`,
)
const enableTotp = statement(
  'auth.enableTotp',
  `UPDATE account SET totp_enabled = true, totp_last_step = $3
   WHERE id = $1 AND totp_secret = $2 AND NOT totp_enabled AND totp_last_step < $3`,
)
const useTotpStep = statement(
  'auth.useTotpStep',
  `UPDATE account SET totp_last_step = $2 WHERE id = $1 AND totp_enabled AND totp_last_step < $2`,
)
const disableTotp = statement(
  'auth.disableTotp',
  `UPDATE account SET totp_enabled = false, totp_secret = NULL, totp_last_step = 0 WHERE id = $1 AND totp_enabled`,
)
const insertRecoveryCodes = statement(
  'auth.insertRecoveryCodes',
  `INSERT INTO recovery_code (account_id, hash) SELECT $1, unnest($2::bytea[])`,
)
const deleteRecoveryCodes = statement('auth.deleteRecoveryCodes', `DELETE FROM recovery_code WHERE account_id = $1`)
const useRecoveryCode = statement(
  'auth.useRecoveryCode',
  `DELETE FROM recovery_code WHERE account_id = $1 AND hash = $2`,
)

export const account = (sql: Sql, id: string) => sql.maybe(byId, [id])
export const credentials = (sql: Sql, id: string) => sql.maybe(withSecretsById, [id])
export const credentialsByEmail = (sql: Sql, email: string) => sql.maybe(withSecretsByEmail, [email])

export interface NewAccount {
  readonly id: string
  readonly email: string
  readonly passwordHash: string
  readonly firstName: string | null
  readonly lastName: string | null
}

/**
 * Inserts the account. The first account of an installation becomes Admin; of several concurrent first registrations,
 * only one does. Returns false if another account has the e-mail address.
 */
export async function createAccount(tx: Tx, a: NewAccount): Promise<boolean> {
  let exists = (await tx.one(anyAccount)).exists
  if (!exists) {
    await tx.one(lockFirst)
    exists = (await tx.one(anyAccount)).exists
  }
  const role = exists ? 'User' : 'Admin'
  const row = await tx.maybe(insertAccount, [a.id, a.email, a.passwordHash, a.firstName, a.lastName, role])
  return row !== undefined
}

export interface ProfileChange {
  readonly emailNotifications: boolean | null
  readonly firstName: string | null
  readonly lastName: string | null
  readonly marketingEmails: boolean | null
  /** URL of the profile picture; an empty text removes the picture. */
  readonly avatarUrl: string | null
}
export const changeProfile = (tx: Tx, id: string, c: ProfileChange) =>
  tx.run(updateProfile, [id, c.emailNotifications, c.firstName, c.lastName, c.marketingEmails, c.avatarUrl])

/** Sets the password. Returns false if the epoch has changed in the meantime. */
export const setPassword = async (tx: Tx, id: string, epoch: number, passwordHash: string) =>
  (await tx.run(changePassword, [id, epoch, passwordHash])) === 1

/** Returns the ids of all Admins, and locks them until the transaction ends. */
export const lockedAdmins = async (tx: Tx) => (await tx.rows(lockAdmins)).map(row => row.id)
export const hasOtherAccounts = async (tx: Tx, id: string) => (await tx.one(otherAccounts, [id])).exists
export const removeAccount = (tx: Tx, id: string) => tx.run(deleteAccount, [id])
/** Notifies every control plane on commit to end the open streams of this account. */
export const announceRevoked = (tx: Tx, id: string) => tx.atCommit(notifyRevoked, [id])

export const beginTotp = async (tx: Tx, id: string, sealedSecret: Buffer) =>
  (await tx.run(setPendingTotp, [id, sealedSecret])) === 1
export const confirmTotp = async (tx: Tx, id: string, sealedSecret: Buffer, step: number) =>
  (await tx.run(enableTotp, [id, sealedSecret, step])) === 1
/**
 * Marks the time step of a code as used. Returns true only once per time step: a code is never accepted twice (RFC
 * 6238, 5.2).
 */
export const spendTotpStep = async (db: Db | Tx, id: string, step: number) =>
  (await db.run(useTotpStep, [id, step])) === 1
export const removeTotp = async (tx: Tx, id: string) => (await tx.run(disableTotp, [id])) === 1
export async function replaceRecoveryCodes(tx: Tx, id: string, hashes: readonly Buffer[]): Promise<void> {
  await tx.run(deleteRecoveryCodes, [id])
  if (hashes.length > 0) await tx.run(insertRecoveryCodes, [id, hashes])
}
export const spendRecoveryCode = async (db: Db | Tx, id: string, hash: Buffer) =>
  (await db.run(useRecoveryCode, [id, hash])) === 1

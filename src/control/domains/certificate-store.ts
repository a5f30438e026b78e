import { type Db, type Sql, type Tx, statement } from '../../db/db.ts'

export interface DueCertificate {
  readonly domainId: string
  readonly name: string
  readonly failures: number
}
export interface KeptCertificate {
  readonly chain: string
  /** Private key of the certificate, encrypted. */
  readonly privateKey: Buffer
  readonly notAfter: Date
}
export interface IssuedCertificate extends KeptCertificate {
  readonly notBefore: Date
}

// Selects verified domains that need a certificate: they have none, or it is in the last third of its lifetime, when
// certificate authorities recommend a renewal.
const due = statement<DueCertificate>(
  'certificates.due',
  `SELECT d.id AS "domainId", d.name, coalesce(c.failures, 0) AS failures
   FROM domain d LEFT JOIN certificate c ON c.domain_id = d.id
   WHERE d.state = 'verified' AND coalesce(c.next_try_at, '-infinity') <= $1
     AND (c.chain IS NULL OR c.not_after - $1 < (c.not_after - c.not_before) / 3)
   ORDER BY c.not_after NULLS FIRST, d.id LIMIT $2`,
)
const ofName = statement<KeptCertificate>(
  'certificates.ofName',
  `SELECT c.chain, c.private_key AS "privateKey", c.not_after AS "notAfter" FROM certificate c
   JOIN domain d ON d.id = c.domain_id WHERE d.name = $1 AND d.state = 'verified' AND c.chain IS NOT NULL`,
)
// Stores a certificate, unless its domain was deleted in the meantime.
const putCertificate = statement(
  'certificates.put',
  `INSERT INTO certificate (domain_id, chain, private_key, not_before, not_after)
   SELECT id, $2, $3, $4, $5 FROM domain WHERE id = $1
   ON CONFLICT (domain_id) DO UPDATE SET chain = excluded.chain, private_key = excluded.private_key,
     not_before = excluded.not_before, not_after = excluded.not_after, failures = 0, message = NULL, next_try_at = now()`,
)
const putFailure = statement(
  'certificates.fail',
  `INSERT INTO certificate (domain_id, failures, message, next_try_at)
   SELECT id, 1, $2, now() + $3::float8 * interval '1 millisecond' FROM domain WHERE id = $1
   ON CONFLICT (domain_id) DO UPDATE SET failures = certificate.failures + 1, message = excluded.message,
     next_try_at = excluded.next_try_at`,
)
const accountKey = statement<{ key: Buffer }>(
  'certificates.account',
  `SELECT key FROM acme_account WHERE directory = $1`,
)
const putAccount = statement(
  'certificates.putAccount',
  `INSERT INTO acme_account (directory, key) VALUES ($1, $2) ON CONFLICT (directory) DO NOTHING`,
)
const putChallenge = statement(
  'certificates.putChallenge',
  `INSERT INTO acme_challenge (token, hostname, key_authorization, expires_at) VALUES ($1, $2, $3, now() + interval '1 hour')
   ON CONFLICT (token) DO UPDATE SET key_authorization = excluded.key_authorization, expires_at = excluded.expires_at`,
)
const findChallenge = statement<{ keyAuthorization: string }>(
  'certificates.challenge',
  `SELECT key_authorization AS "keyAuthorization" FROM acme_challenge WHERE token = $1 AND hostname = $2 AND expires_at > now()`,
)
const deleteChallenge = statement('certificates.deleteChallenge', `DELETE FROM acme_challenge WHERE token = $1`)
const forgetChallenges = statement('certificates.forget', `DELETE FROM acme_challenge WHERE expires_at <= now()`)

export const dueAt = (db: Db, now: Date, limit: number) => db.rows(due, [now, limit])
export const find = (sql: Sql, hostname: string) => sql.maybe(ofName, [hostname])
export const keep = (tx: Tx, domainId: string, made: IssuedCertificate) =>
  tx.run(putCertificate, [domainId, made.chain, made.privateKey, made.notBefore, made.notAfter])
export const fail = (sql: Sql, domainId: string, message: string, pauseMs: number) =>
  sql.run(putFailure, [domainId, message, pauseMs])
/**
 * Returns the key of the installation's account at the certificate authority; creates the key if there is none. Of two
 * concurrent inserts the first wins.
 */
export async function account(db: Db, directory: string, make: () => Promise<Buffer>): Promise<Buffer> {
  const known = await db.maybe(accountKey, [directory])
  if (known) return known.key
  await db.run(putAccount, [directory, await make()])
  return (await db.one(accountKey, [directory])).key
}
export const challenge = (sql: Sql, token: string, hostname: string) => sql.maybe(findChallenge, [token, hostname])
export const setChallenge = (sql: Sql, token: string, hostname: string, keyAuthorization: string) =>
  sql.run(putChallenge, [token, hostname, keyAuthorization])
export const clearChallenge = (sql: Sql, token: string) => sql.run(deleteChallenge, [token])
export const forgetExpired = (sql: Sql) => sql.run(forgetChallenges)

/** Passwords that are valid for one login to one database, so that clients never send an account's token over SSH. */
import { randomBytes } from 'node:crypto'
import { type Sql, type Tx, statement } from '../../db/db.ts'
import { minutes } from '../../lib/duration.ts'
import type { Vault } from '../../lib/vault.ts'
import type { Caller } from '../http/operation.ts'

const prefix = 'svc_tun_'
const purpose = 'tunnel-password'
/** Time for which a password is valid: long enough to request it and connect with it. */
export const tunnelPasswordMs = minutes(1)

const insert = statement(
  'databases.addTunnelPassword',
  `INSERT INTO tunnel_password (hash, account_id, project_id, target, via, via_id, expires_at)
   VALUES ($1, $2, $3, $4, $5, $6, $7)`,
)
const forget = statement('databases.forgetTunnelPasswords', `DELETE FROM tunnel_password WHERE expires_at <= $1`)
const take = statement<{ accountId: string; projectId: string; via: 'pat' | 'session'; viaId: string }>(
  'databases.takeTunnelPassword',
  `DELETE FROM tunnel_password WHERE hash = $1 AND target = $2 AND expires_at > $3
   RETURNING account_id AS "accountId", project_id AS "projectId", via, via_id AS "viaId"`,
)

export const isTunnelPassword = (text: string) => text.startsWith(prefix)

export async function makeTunnelPassword(
  tx: Tx,
  vault: Vault,
  of: { readonly caller: Caller; readonly projectId: string; readonly target: string; readonly now: Date },
): Promise<{ readonly password: string; readonly expiresAt: Date }> {
  const { caller, projectId, target, now } = of
  const password = prefix + randomBytes(32).toString('base64url')
  const expiresAt = new Date(now.getTime() + tunnelPasswordMs)
  const via = caller.via.kind === 'pat' ? caller.via.patId : caller.via.sessionId
  await tx.run(forget, [now])
  const hash = vault.hash(purpose, password)
  await tx.run(insert, [hash, caller.userId, projectId, target, caller.via.kind, via, expiresAt])
  return { password, expiresAt }
}

/**
 * Checks the password and marks it as used. Returns undefined when it is wrong, expired, used, or for another database.
 */
export const takeTunnelPassword = (sql: Sql, vault: Vault, password: string, target: string, now: Date) =>
  sql.maybe(take, [vault.hash(purpose, password), target, now])

/** Identifies who logs in to a bastion, and checks whether that account still has access to a project. */
import { type Sql, type Tx, statement } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import { ApiError } from '../http/errors.ts'
import type { Caller, Scope } from '../http/operation.ts'
import type { Security } from '../http/ports.ts'
import { scopesAllow } from '../http/scopes.ts'

export interface Person {
  readonly accountId: string
  readonly via: 'pat' | 'key' | 'session'
  readonly viaId: string
}

const keyOfMember = statement<{ keyId: string; accountId: string }>(
  'bastion.keyOfMember',
  `SELECT k.id AS "keyId", k.account_id AS "accountId" FROM ssh_key k
   JOIN project_member m ON m.account_id = k.account_id AND m.project_id = $1 AND m.role <> 'viewer'
   WHERE k.fingerprint = $2 LIMIT 1`,
)
const stillGranted = statement<{ granted: boolean }>(
  'bastion.granted',
  `SELECT EXISTS (SELECT FROM project_member m WHERE m.project_id = $1 AND m.account_id = $2 AND m.role <> 'viewer')
     AND CASE $3::text WHEN 'pat' THEN EXISTS (SELECT FROM pat WHERE id = $4 AND account_id = $2
                                                AND (expires_at IS NULL OR expires_at > now()))
                       WHEN 'session' THEN EXISTS (SELECT FROM session WHERE id = $4 AND account_id = $2 AND revoked_at IS NULL)
                       ELSE EXISTS (SELECT FROM ssh_key WHERE id = $4 AND account_id = $2) END AS granted`,
)
const keyUsed = statement('bastion.keyUsed', `UPDATE ssh_key SET last_used_at = now() WHERE id = $1`)

/** Returns the account of a registered SSH key, if it is a member of the project and not only a viewer. */
export async function personOfKey(sql: Sql, projectId: string, fingerprint: string): Promise<Person | undefined> {
  const key = await sql.maybe(keyOfMember, [projectId, fingerprint])
  return key && { accountId: key.accountId, via: 'key', viaId: key.keyId }
}

/**
 * Returns the account of an access token, if the token has the scope and the account is a member of the project and not
 * only a viewer.
 */
export async function personOfToken(
  security: Security,
  token: string,
  { projectId, scope, ip }: { readonly projectId: string; readonly scope: Scope; readonly ip: string },
): Promise<Person | undefined> {
  const origin = { ip, userAgent: 'ssh', requestId: newId() }
  try {
    const { caller, project } = await security.authenticateInProject(token, projectId, origin)
    const mayWrite = scopesAllow(caller.scopes, scope) && project?.memberRole !== 'viewer'
    if (!project || !mayWrite || caller.via.kind !== 'pat') return undefined
    return { accountId: caller.userId, via: 'pat', viaId: caller.via.patId }
  } catch (cause) {
    if (cause instanceof ApiError) return undefined
    throw cause
  }
}

/**
 * Returns whether the account is still a member of the project and not only a viewer, and the credential is still
 * valid.
 */
export const isGranted = async (sql: Sql, grant: Person & { readonly projectId: string }) =>
  (await sql.one(stillGranted, [grant.projectId, grant.accountId, grant.via, grant.viaId])).granted

/** Records that an SSH key was used. */
export const noteUse = async (tx: Tx, { via, viaId }: Person) => {
  if (via === 'key') await tx.run(keyUsed, [viaId])
}

/** Returns the credential in the form that the audit log records. */
export const credentialOf = ({ via, viaId }: Person): Caller['via'] | undefined =>
  via === 'pat' ? { kind: 'pat', patId: viaId } : via === 'session' ? { kind: 'session', sessionId: viaId } : undefined

/** Describes the credential in words, for the details of an audit entry. */
export const credentialText = ({ via, viaId }: Person) =>
  via === 'key' ? `ssh key ${viaId}` : via === 'pat' ? 'token' : 'session'

import { type Static, Type } from 'typebox'
import type { Vault } from '../../lib/vault.ts'
import { readSigned, sign } from './signed.ts'

/** A bastion login: account, database or app, credential and expiry. */
export const Grant = Type.Object({
  accountId: Type.String(),
  projectId: Type.String(),
  /** Id of what the login reaches: a database, a branch or an app. */
  target: Type.String(),
  via: Type.Enum(['pat', 'key', 'session']),
  viaId: Type.String(),
  expiresMs: Type.Number(),
})
export type Grant = Static<typeof Grant>
export type GrantPurpose = 'database.tunnel' | 'app.shell'

/** An older connection opens no new tunnels and sessions. */
export const grantMs = 12 * 60 * 60 * 1000

/** Signs a grant. The gateway passes it back unchanged. */
export const writeGrant = (vault: Vault, purpose: GrantPurpose, grant: Grant) => sign(vault, purpose, grant)

/** Verifies a grant; undefined when it is forged or damaged. `isOld`: the grant has expired. */
export function readGrant(
  vault: Vault,
  purpose: GrantPurpose,
  text: string,
  now: Date,
): (Grant & { readonly isOld: boolean }) | undefined {
  const grant = readSigned(vault, purpose, Grant, text)
  return grant && { ...grant, isOld: grant.expiresMs <= now.getTime() }
}

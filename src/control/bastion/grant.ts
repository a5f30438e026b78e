import { type Static, Type } from 'typebox'
import type { Vault } from '../../lib/vault.ts'
import { readSigned, sign } from './signed.ts'

/**
 * A grant is the result of a login at a bastion. It names the account, the database or app, the credential and the
 * expiry.
 */
export const Grant = Type.Object({
  accountId: Type.String(),
  projectId: Type.String(),
  /** Id of the database, branch or app that the login may access. */
  target: Type.String(),
  via: Type.Enum(['pat', 'key', 'session']),
  viaId: Type.String(),
  expiresMs: Type.Number(),
})
export type Grant = Static<typeof Grant>
export type GrantPurpose = 'database.tunnel' | 'app.shell'

/** Time after which a grant expires. Then the SSH connection cannot open further tunnels or sessions. */
export const grantMs = 12 * 60 * 60 * 1000

/** Signs a grant. The gateway stores it and sends it back unchanged. */
export const writeGrant = (vault: Vault, purpose: GrantPurpose, grant: Grant) => sign(vault, purpose, grant)

/** Verifies a grant. Returns undefined when it is forged or damaged. `isOld`: the grant has expired. */
export function readGrant(
  vault: Vault,
  purpose: GrantPurpose,
  text: string,
  now: Date,
): (Grant & { readonly isOld: boolean }) | undefined {
  const grant = readSigned(vault, purpose, Grant, text)
  return grant && { ...grant, isOld: grant.expiresMs <= now.getTime() }
}

import { timingSafeEqual } from 'node:crypto'
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import type { Vault } from '../../lib/vault.ts'

/** A bastion login: account, database, credential and expiry. */
export const Grant = Type.Object({
  accountId: Type.String(),
  projectId: Type.String(),
  /** Id used as the login name: of a database or a branch. */
  target: Type.String(),
  via: Type.Enum(['pat', 'key', 'session']),
  viaId: Type.String(),
  expiresMs: Type.Number(),
})
export type Grant = Static<typeof Grant>

const purpose = 'database.tunnel'

/** Signs a grant. The gateway passes it back unchanged; only control can create one. */
export function writeGrant(vault: Vault, grant: Grant): string {
  const text = JSON.stringify(grant)
  return `${Buffer.from(text).toString('base64url')}.${vault.hash(purpose, text).toString('base64url')}`
}

/**
 * Verifies a grant; undefined when it is forged or damaged. `isOld`: the grant has expired and opens no new tunnels.
 */
export function readGrant(vault: Vault, text: string, now: Date): (Grant & { readonly isOld: boolean }) | undefined {
  const [body = '', mac = ''] = text.split('.')
  const content = Buffer.from(body, 'base64url').toString()
  const [given, expected] = [Buffer.from(mac, 'base64url'), vault.hash(purpose, content)]
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined
  const grant = Value.Parse(Grant, JSON.parse(content))
  return { ...grant, isOld: grant.expiresMs <= now.getTime() }
}

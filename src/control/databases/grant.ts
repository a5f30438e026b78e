import { timingSafeEqual } from 'node:crypto'
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import type { Vault } from '../../lib/vault.ts'

/** What a login to the bastion is worth: whom, for which database, by what, until when. */
export const Grant = Type.Object({
  accountId: Type.String(),
  projectId: Type.String(),
  /** Id that was logged in with: of a database or a branch. */
  target: Type.String(),
  via: Type.Enum(['pat', 'key', 'session']),
  viaId: Type.String(),
  expiresMs: Type.Number(),
})
export type Grant = Static<typeof Grant>

const purpose = 'database.tunnel'

/** The gateway carries it back and forth; only control can make one. */
export function writeGrant(vault: Vault, grant: Grant): string {
  const text = JSON.stringify(grant)
  return `${Buffer.from(text).toString('base64url')}.${vault.hash(purpose, text).toString('base64url')}`
}

/** Undefined for one that is forged or damaged. `isOld`: it opens nothing any more. */
export function readGrant(vault: Vault, text: string, now: Date): (Grant & { readonly isOld: boolean }) | undefined {
  const [body = '', mac = ''] = text.split('.')
  const content = Buffer.from(body, 'base64url').toString()
  const [given, expected] = [Buffer.from(mac, 'base64url'), vault.hash(purpose, content)]
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined
  const grant = Value.Parse(Grant, JSON.parse(content))
  return { ...grant, isOld: grant.expiresMs <= now.getTime() }
}

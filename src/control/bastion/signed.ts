/** Signed data that a gateway stores and sends back unchanged. Only the control plane can sign it. */
import { timingSafeEqual } from 'node:crypto'
import type { Static, TSchema } from 'typebox'
import { Value } from 'typebox/value'
import type { Vault } from '../../lib/vault.ts'

/** Signs data. @param purpose a signature for one purpose is not valid for another */
export function sign(vault: Vault, purpose: string, facts: object): string {
  const text = JSON.stringify(facts)
  return `${Buffer.from(text).toString('base64url')}.${vault.hash(purpose, text).toString('base64url')}`
}

/**
 * Verifies and parses signed data. Returns undefined when the text is forged, damaged or signed for another purpose.
 */
export function readSigned<T extends TSchema>(
  vault: Vault,
  purpose: string,
  schema: T,
  text: string,
): Static<T> | undefined {
  const [body = '', mac = ''] = text.split('.')
  const content = Buffer.from(body, 'base64url').toString()
  const [given, expected] = [Buffer.from(mac, 'base64url'), vault.hash(purpose, content)]
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined
  return Value.Parse(schema, JSON.parse(content))
}

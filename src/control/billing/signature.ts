/** Standard Webhooks (standardwebhooks.com, version 1): symmetric signatures, `v1`. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { minutes } from '../../lib/duration.ts'
import { BadSignature, type DeliveryHeaders } from './provider.ts'

/** Tolerance in both directions, as in the reference implementations. */
const toleranceMs = minutes(5)

/** Key of a secret by the standard: base64 after an optional `whsec_`. */
export const standardKey = (secret: string) => Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
/** Key as Polar's server uses it: the bytes of the text itself. */
export const literalKey = (secret: string) => Buffer.from(secret, 'utf8')

export function sign(key: Buffer, id: string, at: Date, raw: Buffer): string {
  const timestamp = Math.floor(at.getTime() / 1000)
  return `v1,${digest(key, id, String(timestamp), raw).toString('base64')}`
}

/**
 * @returns the id of the delivery, which is the same for every repetition
 * @throws BadSignature
 */
export function verify(keys: readonly Buffer[], raw: Buffer, headers: DeliveryHeaders, now: Date): string {
  const id = header(headers, 'webhook-id')
  const timestamp = header(headers, 'webhook-timestamp')
  const given = header(headers, 'webhook-signature')
  if (!/^\d{1,12}$/.test(timestamp)) throw new BadSignature('the timestamp is not a number')
  if (Math.abs(now.getTime() - Number(timestamp) * 1000) > toleranceMs) throw new BadSignature('too old or too new')
  const offered = given
    .split(' ')
    .filter(part => part.startsWith('v1,'))
    .map(part => Buffer.from(part.slice(3), 'base64'))
  const isGood = keys
    // Anyone could sign with an empty key.
    .filter(key => key.length > 0)
    .map(key => digest(key, id, timestamp, raw))
    .some(expected => offered.some(mac => mac.length === expected.length && timingSafeEqual(mac, expected)))
  if (!isGood) throw new BadSignature('no signature matches')
  return id
}

function digest(key: Buffer, id: string, timestamp: string, raw: Buffer): Buffer {
  return createHmac('sha256', key).update(`${id}.${timestamp}.`).update(raw).digest()
}

function header(headers: DeliveryHeaders, name: string): string {
  const value = headers[name]
  if (typeof value !== 'string' || value === '' || value.length > 4096) throw new BadSignature(`${name} is missing`)
  return value
}

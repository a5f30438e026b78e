/** Standard Webhooks signatures (standardwebhooks.com, version 1): symmetric, scheme `v1`. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { minutes } from '../../lib/duration.ts'
import { BadSignature, type DeliveryHeaders } from './provider.ts'

/**
 * Accepted difference between the signature's timestamp and the clock, in both directions, as in the reference
 * implementations.
 */
const toleranceMs = minutes(5)

/** Returns the signing key that the standard specifies: the base64 text after an optional `whsec_`. */
export const standardKey = (secret: string) => Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
/** Returns the signing key as Polar's servers use it: the literal bytes of the secret. */
export const literalKey = (secret: string) => Buffer.from(secret, 'utf8')

export function sign(key: Buffer, id: string, at: Date, raw: Buffer): string {
  const timestamp = Math.floor(at.getTime() / 1000)
  return `v1,${digest(key, id, String(timestamp), raw).toString('base64')}`
}

/**
 * Verifies the signature of a delivery.
 * @returns the delivery's id, which is the same when it is repeated
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
    // Empty keys are skipped, because anyone can sign with an empty key.
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

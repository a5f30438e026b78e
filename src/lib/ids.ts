import { randomBytes, randomInt } from 'node:crypto'

/**
 * Time and counter of the newest id of this process, with which ids stay in the order of their creation even within one
 * millisecond.
 */
const last = { ms: 0, count: 0 }
const mostPerMs = 0x1000

/**
 * Creates a UUID of version 7 (RFC 9562, 5.7): 48 bits of milliseconds, a 12-bit counter (6.2, method 1), then 62
 * random bits. Later ids of a process are larger, so that primary keys are appended to their index, and sorting by
 * creation needs no second column. If the clock is set back, ids continue from the last one.
 */
export function newId(): string {
  const nowMs = Date.now()
  if (nowMs > last.ms) {
    last.ms = nowMs
    last.count = randomInt(mostPerMs / 2)
  } else if (++last.count === mostPerMs) {
    last.ms++
    last.count = 0
  }
  const bytes = randomBytes(16)
  bytes.writeUIntBE(last.ms, 0, 6)
  bytes.writeUInt16BE(0x7000 | last.count, 6)
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export function isUuid(text: string): boolean {
  return uuidPattern.test(text)
}

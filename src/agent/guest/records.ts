/**
 * Data of sessions within lines of the control port. Newlines are replaced by spaces, and a list after the data has
 * their positions, so a line that an earlier connection left incomplete ends with the next newline, as any other.
 * guest/record.c is the other side and describes the list.
 */
import { takeBytes } from '../../lib/buffer-pool.ts'
import { GuestFault } from './fault.ts'

/** RECORD_MAX in guest/mote.h: the longest data with its list. */
export const maxRecordBytes = 65_000

const newline = 10
const space = 32
const digitBits = 6
const digitMask = 63
const more = 0x80
const digit = 0x40

/** Used only within a call. */
const list = Buffer.allocUnsafe(maxRecordBytes)
const lengthsBytes = 12

/**
 * Encodes the beginning of `data`: `<length> <length of the list> <data><list>` and a newline.
 * @returns the bytes, in pooled memory (lib/buffer-pool.ts), and how many of the data they have
 */
export function recordOf(data: Uint8Array, most = maxRecordBytes): { readonly bytes: Buffer; readonly length: number } {
  let length = Math.min(data.length, most)
  const bytes = takeBytes(lengthsBytes + length + Math.min(most, length) + 1)
  bytes.set(data.subarray(0, length), lengthsBytes)
  const body = bytes.subarray(lengthsBytes, lengthsBytes + length)
  let used = 0
  let from = 0
  for (let at = nextNewline(body, from); at >= 0; at = nextNewline(body, from)) {
    let gap = at - from
    const digits = gap <= digitMask ? 1 : gap < 1 << (2 * digitBits) ? 2 : 3
    if (at + 1 + used + digits > most) {
      length = at
      break
    }
    for (; gap > digitMask; gap >>= digitBits) list[used++] = more | digit | (gap & digitMask)
    list[used++] = digit | gap
    body[at] = space
    from = at + 1
  }
  length = Math.min(length, most - used)
  bytes.write(`${padded(length)} ${padded(used)} `, 0, 'latin1')
  bytes.set(list.subarray(0, used), lengthsBytes + length)
  const end = lengthsBytes + length + used
  bytes[end] = newline
  return { bytes: bytes.subarray(0, end + 1), length }
}

/** Further than most lines of a text are long. */
const nearBytes = 64

/** A search in native code costs more than a line of a text. */
function nextNewline(bytes: Buffer, from: number): number {
  const near = Math.min(bytes.length, from + nearBytes)
  for (let at = from; at < near; at++) if (bytes[at] === newline) return at
  return bytes.indexOf(newline, near)
}

const padded = (count: number) => String(count).padStart(5, '0')

const lengths = /^(\d{1,15}) (\d{1,5}) (\d{1,5}) /
/** Longer than the numbers before the data. */
const maxWordsBytes = 40

/** Decodes `<offset> <length> <length of the list> <data><list>` in place. @throws GuestFault */
export function parseRecord(text: Buffer): { readonly offset: number; readonly data: Buffer } {
  const [words = '', offset, length, size] = lengths.exec(text.toString('latin1', 0, maxWordsBytes)) ?? []
  const data = text.subarray(words.length, words.length + Number(length))
  const positions = text.subarray(words.length + data.length)
  if (data.length === 0 || data.length !== Number(length) || positions.length !== Number(size))
    throw new GuestFault('a record of a session is invalid')
  putNewlines(data, positions)
  return { offset: Number(offset), data }
}

/** @throws GuestFault if the list is not valid */
function putNewlines(data: Buffer, positions: Buffer): void {
  let at = 0
  let gap = 0
  let shift = 0
  for (let n = 0; n < positions.length; n++) {
    const byte = positions[n] ?? 0
    gap |= (byte & digitMask) << shift
    shift += digitBits
    if (byte & more && shift < 3 * digitBits) continue
    at += gap
    if (at >= data.length) throw new GuestFault('a record of a session is invalid')
    data[at++] = newline
    gap = 0
    shift = 0
  }
  if (shift > 0) throw new GuestFault('a record of a session is invalid')
}

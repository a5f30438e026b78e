/**
 * A record is session data encoded for one line of the control port: each newline in it becomes a space, and a list
 * after the data has the positions of these newlines. So even a line that an earlier connection left incomplete ends
 * at the next newline. guest/record.c is the other side and describes the list.
 */
import { takeBytes } from '../../lib/buffer-pool.ts'
import { GuestFault } from './fault.ts'

/** Maximum size of a record's data and newline list together (RECORD_MAX in guest/mote.h). */
export const maxRecordBytes = 65_000

const newline = 10
const space = 32
const digitBits = 6
const digitMask = 63
const more = 0x80
const digit = 0x40

/** Scratch buffer for the newline list. Its content matters only within one call. */
const list = Buffer.allocUnsafe(maxRecordBytes)
const lengthsBytes = 12

/**
 * Encodes as much of `data` as fits: `<data length> <newline list length> <data><newline list>` and a newline.
 * @returns the record, in pooled memory (lib/buffer-pool.ts), and the number of bytes of `data` that it contains
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

/**
 * A newline within this many bytes is searched in JavaScript, beyond them with the native `indexOf`. Most lines are
 * shorter.
 */
const nearBytes = 64

/**
 * Returns the position of the next newline, or -1. Searches the first bytes in JavaScript, because the call of the
 * native `indexOf` alone costs more than scanning a typical line of text.
 */
function nextNewline(bytes: Buffer, from: number): number {
  const near = Math.min(bytes.length, from + nearBytes)
  for (let at = from; at < near; at++) if (bytes[at] === newline) return at
  return bytes.indexOf(newline, near)
}

const padded = (count: number) => String(count).padStart(5, '0')

const lengths = /^(\d{1,15}) (\d{1,5}) (\d{1,5}) /
/** Maximum length of the numbers at the start of a record, before its data. */
const maxWordsBytes = 40

/**
 * Decodes `<offset> <record>` in place. The offset is the position of the record's data in the session's output.
 * @throws GuestFault if the record is invalid
 */
export function parseRecord(text: Buffer): { readonly offset: number; readonly data: Buffer } {
  const [words = '', offset, length, size] = lengths.exec(text.toString('latin1', 0, maxWordsBytes)) ?? []
  const data = text.subarray(words.length, words.length + Number(length))
  const positions = text.subarray(words.length + data.length)
  if (data.length === 0 || data.length !== Number(length) || positions.length !== Number(size))
    throw new GuestFault('a record of a session is invalid')
  putNewlines(data, positions)
  return { offset: Number(offset), data }
}

/** Puts the newlines back into the data. @throws GuestFault if the list of their positions is not valid */
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

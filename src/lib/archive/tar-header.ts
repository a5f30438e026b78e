/** Parses tar headers of POSIX.1-2001 (pax) and GNU tar. */
import { ArchiveFault, unreadable } from './fault.ts'

export const blockBytes = 512

export type EntryType =
  | 'file'
  | 'link'
  | 'symlink'
  | 'character-device'
  | 'block-device'
  | 'directory'
  | 'fifo'
  | 'contiguous-file'
  | 'other'

export type ExtensionType = 'pax' | 'pax-global' | 'long-name' | 'long-link'

export interface RawHeader {
  readonly name: string
  readonly linkname: string
  readonly mode: number
  /** Size of the data that follows the header, in bytes. */
  readonly size: number
  readonly type: EntryType | ExtensionType
}

/** Fields of the next entry's header that a pax header overrides. */
export interface PaxFields {
  readonly name?: string
  readonly linkname?: string
  readonly size?: number
}

const types: Readonly<Record<string, RawHeader['type']>> = {
  '\0': 'file',
  '0': 'file',
  '1': 'link',
  '2': 'symlink',
  '3': 'character-device',
  '4': 'block-device',
  '5': 'directory',
  '6': 'fifo',
  '7': 'contiguous-file',
  x: 'pax',
  g: 'pax-global',
  L: 'long-name',
  K: 'long-link',
}

/**
 * Types of entries without data, whatever size their header contains. Go's archive/tar, which unpacks images, has the
 * same list.
 */
const withoutData: ReadonlySet<RawHeader['type']> = new Set([
  'link',
  'symlink',
  'character-device',
  'block-device',
  'directory',
  'fifo',
])

const checksum = { at: 148, length: 8 } as const
const spaces = 32 * checksum.length

/**
 * Parses a header. @param block has `blockBytes` bytes, not all of them zero @throws ArchiveFault when the header is
 * invalid
 */
export function parseHeader(block: Buffer): RawHeader {
  if (numberAt(block, checksum.at, checksum.length) !== sumOf(block)) throw unreadable('a header has a wrong checksum')
  const flag = String.fromCharCode(block[156] ?? 0)
  // Refuse sparse files in GNU format: their headers do not contain the real size.
  if (flag === 'S') throw sparse()
  const type = types[flag] ?? 'other'
  const isPosix = block.toString('latin1', 257, 263) === 'ustar\0'
  const prefix = isPosix ? textAt(block, 345, 155) : ''
  const short = textAt(block, 0, 100)
  // The fields are not final yet: the caller calls `entryOf` once it knows the full name. The name in the header is cut
  // to 100 bytes, possibly after a slash.
  return {
    name: prefix === '' ? short : `${prefix}/${short}`,
    linkname: textAt(block, 157, 100),
    mode: numberAt(block, 100, 8) & 0o7777,
    size: checkedSize(numberAt(block, 124, 12)),
    type,
  }
}

function checkedSize(size: number): number {
  if (!Number.isSafeInteger(size) || size < 0) throw unreadable('a size is invalid')
  return size
}

/** Normalizes the fields of an entry according to its type and its full name. */
export function entryOf(header: RawHeader): RawHeader {
  const { type, name } = header
  const size = checkedSize(header.size)
  if (withoutData.has(type)) return { ...header, size: 0 }
  if (type !== 'file' || !name.endsWith('/')) return header
  // Refuse data after a file whose name ends with a slash: readers disagree on whether that data is skipped.
  if (size > 0) throw unreadable('a directory has content')
  return { ...header, type: 'directory' }
}

const sparse = () =>
  new ArchiveFault('refused', 'the archive has sparse files; create the archive without them (tar without --sparse)')

function sumOf(block: Buffer): number {
  let sum = spaces
  for (const byte of block) sum += byte
  for (let at = checksum.at; at < checksum.at + checksum.length; at++) sum -= block[at] ?? 0
  return sum
}

function textAt(block: Buffer, at: number, length: number): string {
  const end = block.indexOf(0, at)
  return block.toString('utf8', at, end < 0 ? at + length : Math.min(end, at + length))
}

/**
 * Parses a number in octal digits or, if the highest bit is set, in binary (big endian). Returns NaN if it is neither.
 */
function numberAt(block: Buffer, at: number, length: number): number {
  if ((block[at] ?? 0) !== 0x80) {
    const digits = /^[ \0]*(?:([0-7]+)[ \0]*)?$/.exec(block.toString('latin1', at, at + length))
    return digits === null ? Number.NaN : Number(`0o${digits[1] ?? '0'}`)
  }
  let value = 0
  for (const byte of block.subarray(at + 1, at + length)) value = value * 256 + byte
  return value
}

const mostRecords = 256

/**
 * Yields the key and value of each record `<length> <key>=<value>\n` in a pax header. The length counts its own digits,
 * too. @throws ArchiveFault
 */
export function* paxRecords(data: Buffer): Generator<readonly [key: string, value: string]> {
  let count = 0
  for (let at = 0; at < data.length; ) {
    // The remaining bytes are padding of the last block.
    if (data[at] === 0) return
    if (++count > mostRecords) throw new ArchiveFault('refused', `a header exceeds the limit of ${mostRecords} records`)
    const digits = /^(\d{1,7}) /.exec(data.toString('latin1', at, at + 8))?.[1]
    const end = at + Number(digits)
    const equals = data.indexOf('=', at)
    if (digits === undefined || end > data.length || data[end - 1] !== 10 || equals < 0 || equals >= end)
      throw unreadable('a pax header is damaged')
    yield [data.toString('utf8', at + digits.length + 1, equals), data.toString('utf8', equals + 1, end - 1)]
    at = end
  }
}

/** Parses a pax header. @throws ArchiveFault also for sparse files, because a few bytes could expand to a full disk */
export function parsePax(data: Buffer): PaxFields {
  const found = new Map<string, string>()
  for (const [key, value] of paxRecords(data)) {
    if (key.startsWith('GNU.sparse.')) throw sparse()
    if (key === 'path' || key === 'linkpath' || key === 'size') found.set(key, value)
  }
  const [name, linkname, size] = [found.get('path'), found.get('linkpath'), found.get('size')]
  if (size && !/^\d{1,15}$/.test(size)) throw unreadable('a size is invalid')
  return {
    ...(name ? { name } : {}),
    ...(linkname ? { linkname } : {}),
    ...(size ? { size: Number(size) } : {}),
  }
}

/**
 * Checks a global header. Only `comment` is allowed, in which `git archive` stores the commit: a global header with
 * other records would change every following entry.
 */
export function checkGlobal(data: Buffer): void {
  for (const [key] of paxRecords(data))
    if (key !== 'comment')
      throw new ArchiveFault('refused', 'the archive has a global pax header; create the archive without one')
}

/** Returns the text in the data of a GNU header for a long name. */
export const longText = (data: Buffer): string => textAt(data, 0, data.length)

/** Parses the output of the file tools in the guest. The guest is not trusted, so all output is validated. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { decodeWord } from '../../lib/words.ts'
import { ApiError } from '../http/errors.ts'
import { nameOf, pathOf } from './file-paths.ts'
import type { VmFile } from './file-resources.ts'

/** Limits of one response. They are low, because the event loop serializes a response without a pause. */
export const mostEntries = 2_000
const mostBytes = 1 << 20
const maxLineBytes = 40_000

const types: Readonly<Record<string, VmFile['type']>> = { f: 'file', d: 'directory', l: 'symlink', o: 'other' }
const linePattern = /^([fdlo]) ([0-7]{1,4}) (\d{1,16}) (-?\d{1,12}) ([\x21-\x7e]+) ([\x21-\x7e]*)(?: ([fdlo-]))?$/

/** Reads directory entries until the output ends or a limit is reached; in the latter case `isComplete` is false. */
export async function readEntries(
  output: AsyncIterable<Buffer>,
  most = mostEntries,
): Promise<{ readonly entries: VmFile[]; readonly isComplete: boolean }> {
  const entries: VmFile[] = []
  let rest = ''
  let bytes = 0
  for await (const part of output) {
    bytes += part.length
    const lines = (rest + part.toString('latin1')).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      if (entries.length === most) return { entries, isComplete: false }
      entries.push(parseEntry(line))
    }
    if (bytes > mostBytes) return { entries, isComplete: false }
    if (rest.length > maxLineBytes) throw unreadable()
    // Yield to the event loop after each chunk. Buffered chunks would otherwise be parsed without a pause, and 1 MiB of
    // them blocked the event loop for 90 ms.
    await nextTurn()
  }
  if (rest !== '') throw unreadable()
  return { entries, isComplete: true }
}

function parseEntry(line: string): VmFile {
  const [, type = '', mode = '', bytes, seconds, name = '', target = '', leads] = linePattern.exec(line) ?? []
  if (type === '') throw unreadable()
  const path = pathOf(decodeWord(name))
  return {
    name: nameOf(path),
    path: path.text,
    encoded_path: path.encoded,
    type: types[type] ?? 'other',
    mode: mode.padStart(4, '0'),
    size_bytes: Math.min(Number(bytes), Number.MAX_SAFE_INTEGER),
    modified_at: dateOf(Number(seconds)),
    target: type === 'l' ? decodeWord(target).toString() : null,
    target_type: leads === undefined ? null : (types[leads] ?? null),
  }
}

/**
 * Latest time in a response: the last day of the year 9999, after which ISO dates need more digits. A guest may report
 * any time.
 */
const lastSecond = Date.UTC(9999, 11, 31) / 1000
const dateOf = (seconds: number) => new Date(Math.max(0, Math.min(lastSecond, seconds)) * 1000).toISOString()

/**
 * First line of a download: file size (-1: unknown), version, position of the first byte sent (-1: the range starts
 * after the end), and number of bytes sent.
 */
export interface FileHead {
  readonly sizeBytes: number
  readonly version: string
  readonly first: number
  readonly count: number
}

const headPattern = /^(-1|\d{1,15}) ([\w.-]{1,79}) (-1|\d{1,15}) (\d{1,15})$/
const maxHeadBytes = 200

/** Reads and parses the first line of a download; `rest` is the content that followed the line in the same chunk. */
export async function takeHead(
  output: AsyncGenerator<Buffer, void, undefined>,
): Promise<{ readonly head: FileHead; readonly rest: Buffer }> {
  let taken = Buffer.alloc(0)
  while (!taken.includes(newline)) {
    const { value } = await output.next()
    if (!value || taken.length > maxHeadBytes) throw unreadable()
    taken = Buffer.concat([taken, value])
  }
  const end = taken.indexOf(newline)
  const [, size, version = '', first, count] = headPattern.exec(taken.toString('latin1', 0, end)) ?? []
  if (version === '') throw unreadable()
  const head = { sizeBytes: Number(size), version, first: Number(first), count: Number(count) }
  return { head, rest: taken.subarray(end + 1) }
}

const spacePattern = /^(\d{1,20}) (\d{1,20}) (\d{1,20})$/

export async function readSpace(output: AsyncIterable<Buffer>) {
  let text = ''
  for await (const part of output) if ((text += part.toString('latin1')).length > maxHeadBytes) throw unreadable()
  const [, size, free, available] = (spacePattern.exec(text.trim()) ?? []).map(Number)
  if (size === undefined || free === undefined || available === undefined) throw unreadable()
  return { size_bytes: safe(size), free_bytes: safe(free), available_bytes: safe(available) }
}

const safe = (bytes: number) => Math.min(bytes, Number.MAX_SAFE_INTEGER)
const newline = 0x0a

const unreadable = () => new ApiError('unavailable', 'The VM sent an invalid directory list. Try again.')

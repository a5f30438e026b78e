/**
 * Reads a log file in either direction, one block at a time. This limits memory use and does not block the event loop.
 */
import { type FileHandle, open } from 'node:fs/promises'
import type { LogOrder } from '../../contract/agent.ts'
import { parseLine, type StoredLine } from './line.ts'

/** Size of a block: larger than the longest line, which has 16,384 characters of up to three bytes. */
const blockBytes = 64 * 1024
const newline = 0x0a

export interface LogRange {
  readonly order: LogOrder
  /** Reads only lines after this time and before `beforeUs`. */
  readonly afterUs: number
  readonly beforeUs: number
}

export interface Block {
  /** Lines of the block in the order of the range (oldest or newest first). */
  readonly lines: readonly StoredLine[]
  readonly bytes: number
}

/** Yields the file's lines in the range, block by block. Times in a file only increase. */
export async function* blocks(file: FileHandle, range: LogRange): AsyncGenerator<Block> {
  const { size } = await file.stat()
  if (range.order === 'oldest') yield* forwards(file, size, range)
  else yield* backwards(file, size, range)
}

/** Opens the file. Returns undefined if it does not exist. */
export async function openIfExists(path: string): Promise<FileHandle | undefined> {
  return open(path).catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  })
}

/** Returns the times of the first and last lines; undefined if the file has no line. */
export async function boundsOf(file: FileHandle): Promise<{ firstUs: number; lastUs: number } | undefined> {
  const everything = { afterUs: -1, beforeUs: Number.POSITIVE_INFINITY }
  const firstOf = async (order: LogOrder) => {
    for await (const { lines } of blocks(file, { order, ...everything })) if (lines[0]) return lines[0].atUs
    return undefined
  }
  const firstUs = await firstOf('oldest')
  const lastUs = await firstOf('newest')
  return firstUs === undefined || lastUs === undefined ? undefined : { firstUs, lastUs }
}

/** Returns the newest lines after `afterUs`, at most `tail` of them, oldest first. @param segments oldest first */
export async function newestOf(
  segments: ReadonlyArray<{ readonly path: string }>,
  tail: number,
  afterUs: number,
): Promise<StoredLine[]> {
  const lines: StoredLine[] = []
  for (const { path } of segments.toReversed()) {
    await using file = await openIfExists(path)
    if (!file) continue
    for await (const block of blocks(file, { order: 'newest', afterUs, beforeUs: Number.MAX_SAFE_INTEGER })) {
      lines.push(...block.lines.slice(0, tail - lines.length))
      if (lines.length >= tail) return lines.reverse()
    }
  }
  return lines.reverse()
}

async function* forwards(file: FileHandle, size: number, range: LogRange): AsyncGenerator<Block> {
  for (let at = await seek(file, size, range.afterUs, 'before'); at < size; ) {
    const block = await read(file, at, Math.min(size, at + blockBytes))
    const end = block.lastIndexOf(newline) + 1
    const lines = linesOf(block.subarray(0, end))
    yield { lines: within(lines, range), bytes: block.length }
    if ((lines.at(-1)?.atUs ?? 0) >= range.beforeUs) return
    at += end === 0 ? block.length : end
    if (block.length === 0 || (end === 0 && at >= size)) return
  }
}

async function* backwards(file: FileHandle, size: number, range: LogRange): AsyncGenerator<Block> {
  for (let end = await seek(file, size, range.beforeUs, 'after'); end > 0; ) {
    const start = Math.max(0, end - blockBytes)
    const block = await read(file, start, end)
    if (block.length === 0) return
    // The first line of this block began in the block before it, and is read with that block.
    const from = start === 0 ? 0 : block.indexOf(newline) + 1
    const to = block.lastIndexOf(newline) + 1
    const lines = linesOf(block.subarray(from, to))
    yield { lines: within(lines, range).reverse(), bytes: block.length }
    if ((lines[0]?.atUs ?? Number.POSITIVE_INFINITY) <= range.afterUs) return
    // A block without a line break is damaged; continue with the block before it.
    end = start === 0 ? 0 : from === 0 || start + from >= end ? start : start + from
  }
}

async function read(file: FileHandle, start: number, end: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(end - start), 0, end - start, start)
  return buffer.subarray(0, bytesRead)
}

function linesOf(block: Buffer): StoredLine[] {
  const lines = block.toString().split('\n').map(parseLine)
  return lines.filter(line => line !== undefined)
}

const within = (lines: readonly StoredLine[], { afterUs, beforeUs }: LogRange) =>
  lines.filter(({ atUs }) => atUs > afterUs && atUs < beforeUs)

/**
 * Finds the offset of a time in the file by binary search, with an accuracy of two blocks. `before`: all lines before
 * the offset are at or before the time; `after`: all lines from the offset on are at or after the time. The offset is
 * the start of a line, or the start or end of the file.
 */
async function seek(file: FileHandle, size: number, timeUs: number, side: 'before' | 'after'): Promise<number> {
  let low = 0
  let high = size
  for (let left = 40; left > 0 && high - low > 2 * blockBytes; left--) {
    const middle = Math.floor((low + high) / 2)
    const line = await lineAfter(file, middle)
    // The file is damaged at this offset. The bounds found so far are still correct.
    if (!line || line.start >= high) break
    const isEarly = side === 'before' ? line.atUs <= timeUs : line.atUs < timeUs
    if (isEarly) low = line.start
    else high = line.start
  }
  return side === 'before' ? low : high
}

async function lineAfter(file: FileHandle, offset: number): Promise<{ start: number; atUs: number } | undefined> {
  const block = await read(file, offset, offset + blockBytes)
  const from = block.indexOf(newline) + 1
  const atUs = Number(/^\d{1,16}(?= )/.exec(block.subarray(from, from + 20).toString('latin1'))?.[0])
  return from === 0 || Number.isNaN(atUs) ? undefined : { start: offset + from, atUs }
}

import { createHash } from 'node:crypto'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { run } from '../../../lib/exec.ts'
import { dataRanges, type Range } from '../../disk/extents.ts'
import { sync } from '../../disk/whole-file.ts'

/** What is compared, and sent if it differs. */
export const chunkBytes = 256 << 10
const zeros = Buffer.alloc(chunkBytes)

/** Hash of each chunk by its offset; what is all zeros has none. */
export type Chunks = Map<number, string>

/** The size of a file, or of a block device. */
export async function sizeOf(path: string): Promise<number> {
  const what = await stat(path)
  return what.isBlockDevice() ? Number(await run('blockdev', ['--getsize64', path])) : what.size
}

/** Bytes that have to be read of it. A block device tells of no holes. */
export async function dataIn(path: string): Promise<{ readonly size: number; readonly ranges: readonly Range[] }> {
  const size = await sizeOf(path)
  if ((await stat(path)).isBlockDevice()) return { size, ranges: [{ start: 0, end: size }] }
  // What has no place on the disk yet is in no list of extents.
  await sync(path)
  return { size, ranges: await dataRanges(path) }
}

export const bytesOf = (ranges: readonly Range[]): number =>
  ranges.reduce((sum, { start, end }) => sum + end - start, 0)

/** Every chunk that may hold more than zeros, in order. Each has a buffer of its own: a socket may still hold the one before. */
export async function* chunksOf(
  path: string,
  { size, ranges }: Awaited<ReturnType<typeof dataIn>>,
): AsyncGenerator<{ readonly offset: number; readonly data: Buffer }> {
  const file = await open(path, 'r')
  try {
    let next = 0
    for (const { start, end } of ranges) {
      // Two extents may meet in one chunk.
      next = Math.max(next, start - (start % chunkBytes))
      for (; next < Math.min(end, size); next += chunkBytes)
        yield { offset: next, data: await readChunk(file, next, size) }
    }
  } finally {
    await file.close()
  }
}

async function readChunk(file: FileHandle, offset: number, size: number): Promise<Buffer> {
  const wanted = Math.min(chunkBytes, size - offset)
  const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(wanted), 0, wanted, offset)
  return buffer.subarray(0, bytesRead)
}

/** Undefined for zeros. */
export function hashOf(data: Buffer): string | undefined {
  return data.equals(zeros.subarray(0, data.length)) ? undefined : createHash('sha256').update(data).digest('base64')
}

/** SHA-256 over the size and the chunks that are not all zeros: two hosts with the same digest have the same bytes. */
export function digestOf(size: number, chunks: Chunks): string {
  const hash = createHash('sha256').update(`${size}\n`)
  for (const offset of [...chunks.keys()].toSorted((a, b) => a - b)) hash.update(`${offset} ${chunks.get(offset)}\n`)
  return hash.digest('base64')
}

/**
 * Of the first `size` bytes, read back from the file or device, which may be longer: pools round up.
 * @throws Error when it is shorter; the signal's reason
 */
export async function digestAt(path: string, size: number, signal?: AbortSignal): Promise<string> {
  const { size: there, ranges } = await dataIn(path)
  if (there < size) throw new Error(`${path} has ${there} bytes, and ${size} were to be there`)
  const begin = ranges
    .filter(({ start }) => start < size)
    .map(({ start, end }) => ({ start, end: Math.min(end, size) }))
  const chunks: Chunks = new Map()
  for await (const { offset, data: chunk } of chunksOf(path, { size, ranges: begin })) {
    signal?.throwIfAborted()
    const hash = hashOf(chunk)
    if (hash !== undefined) chunks.set(offset, hash)
  }
  return digestOf(size, chunks)
}

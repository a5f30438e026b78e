import { createHash } from 'node:crypto'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { run } from '../../../lib/exec.ts'
import { dataRanges, type Range } from '../../disk/extents.ts'
import { sync } from '../../disk/whole-file.ts'

/** Size of a chunk. Volumes are compared and sent in chunks: only chunks whose hashes differ are sent. */
export const chunkBytes = 256 << 10
const zeros = Buffer.alloc(chunkBytes)

/** Hash of each chunk, by the chunk's offset in the volume. Chunks that are all zeros have no entry. */
export type Chunks = Map<number, string>

/** Returns the size of a file or block device. */
export async function sizeOf(path: string): Promise<number> {
  const what = await stat(path)
  return what.isBlockDevice() ? Number(await run('blockdev', ['--getsize64', path])) : what.size
}

/**
 * Returns the size of a file or device, and the byte ranges that may contain data: for a block device the whole device,
 * because it does not report holes.
 */
export async function dataIn(path: string): Promise<{ readonly size: number; readonly ranges: readonly Range[] }> {
  const size = await sizeOf(path)
  if ((await stat(path)).isBlockDevice()) return { size, ranges: [{ start: 0, end: size }] }
  // Flush the file first: the list of its extents lacks data that is not written to disk yet (delayed allocation).
  await sync(path)
  return { size, ranges: await dataRanges(path) }
}

export const bytesOf = (ranges: readonly Range[]): number =>
  ranges.reduce((sum, { start, end }) => sum + end - start, 0)

/**
 * Yields every chunk that may contain data, in order. Each chunk has its own buffer, because a socket may still hold
 * the previous one.
 */
export async function* chunksOf(
  path: string,
  { size, ranges }: Awaited<ReturnType<typeof dataIn>>,
): AsyncGenerator<{ readonly offset: number; readonly data: Buffer }> {
  const file = await open(path, 'r')
  try {
    let next = 0
    for (const { start, end } of ranges) {
      // The end of one extent and the start of the next may be in the same chunk, which must be read only once.
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

/** Returns the hash of a chunk; undefined if it is all zeros. */
export function hashOf(data: Buffer): string | undefined {
  return data.equals(zeros.subarray(0, data.length)) ? undefined : createHash('sha256').update(data).digest('base64')
}

/**
 * Returns a SHA-256 over the size and all nonzero chunks of a volume. Equal digests on two hosts mean equal contents.
 */
export function digestOf(size: number, chunks: Chunks): string {
  const hash = createHash('sha256').update(`${size}\n`)
  for (const offset of [...chunks.keys()].toSorted((a, b) => a - b)) hash.update(`${offset} ${chunks.get(offset)}\n`)
  return hash.digest('base64')
}

/**
 * Returns the digest of the first `size` bytes of a file or device, which may be longer, because pools round sizes up.
 * @throws Error if the file is shorter; after an abort, the signal's reason
 */
export async function digestAt(path: string, size: number, signal?: AbortSignal): Promise<string> {
  const { size: there, ranges } = await dataIn(path)
  if (there < size) throw new Error(`${path} has ${there} bytes instead of at least ${size}`)
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

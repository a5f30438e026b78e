import { createHash } from 'node:crypto'
import { open, stat, statfs } from 'node:fs/promises'
import { run } from '../../lib/exec.ts'

/** A range of bytes in a file, `end` excluded. */
export interface Range {
  readonly start: number
  readonly end: number
}

/**
 * FUSE_SUPER_MAGIC (statfs(2)). On FUSE, filefrag reports no extents for any file, and no error (observed on zfs-fuse
 * 0.7.0).
 */
const fuse = 0x65735546

/**
 * Returns the ranges of a file that have data, in order; the rest reads as zeros. Returns the whole file if extents are
 * unavailable (FIEMAP, which tmpfs lacks). Node has no `SEEK_DATA`, and reading holes would cost as much as reading
 * data.
 */
export async function dataRanges(path: string): Promise<Range[]> {
  const { size } = await stat(path)
  const reports = (await statfs(path)).type !== fuse
  const listed = reports ? await run('filefrag', ['-v', '-b1', '--', path]).catch(() => '') : ''
  return parseExtents(listed, size) ?? (size === 0 ? [] : [{ start: 0, end: size }])
}

/**
 * Parses the output of `filefrag -v -b1` (e2fsprogs), such as ` 0: 0.. 4095: 34816.. 38911: 4096: last,eof`. Returns
 * undefined if the output does not list all extents.
 */
export function parseExtents(listed: string, size: number): Range[] | undefined {
  const extents: Range[] = []
  let last = false
  for (const [, index, start, end, flags] of listed.matchAll(/^\s*(\d+):\s*(\d+)\.\.\s*(\d+):(.*)$/gm)) {
    if (Number(index) !== extents.length) return undefined
    extents.push({ start: Math.min(size, Number(start)), end: Math.min(size, Number(end) + 1) })
    last = /\blast\b/.test(flags ?? '')
  }
  return last || (extents.length === 0 && /: 0 extents found\s*$/.test(listed)) ? extents : undefined
}

const blockBytes = 64 << 10
const zeros = Buffer.alloc(blockBytes)

/**
 * Returns a SHA-256 over the file's name, size, and every nonzero block of 64 KiB with its offset. Holes and zeros give
 * the same hash.
 */
export async function digestSparse(name: string, path: string): Promise<Buffer> {
  const { size } = await stat(path)
  const hash = createHash('sha256').update(`${name} ${size}\n`)
  const file = await open(path)
  try {
    const block = Buffer.alloc(blockBytes)
    let next = 0
    for (const { start, end } of await dataRanges(path)) {
      // The end of one extent and the start of the next may be in the same block, which must be hashed only once.
      next = Math.max(next, start - (start % blockBytes))
      for (; next < end; next += blockBytes) {
        const { bytesRead } = await file.read(block, 0, blockBytes, next)
        const data = block.subarray(0, bytesRead)
        if (!data.equals(zeros.subarray(0, bytesRead))) hash.update(`${next}\n`).update(data)
      }
    }
  } finally {
    await file.close()
  }
  return hash.digest()
}

/**
 * Appends more archives to the source disk of a build. They get no disks of their own, because an emulated VM has
 * device slots for three build drives only.
 */
import { createReadStream, createWriteStream } from 'node:fs'
import { rm, stat, truncate } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'

/** Appended archives begin at multiples of this size, so that a guest reads them in large blocks. */
const blockBytes = 1 << 20

/**
 * Shell function: `unpack_behind <block> <directory>` unpacks the archive that begins at that block of the source disk.
 * Needs `findDisk`.
 */
export const unpackBehind = `unpack_behind() { dd if="$(disk source)" bs=${blockBytes} skip="$1" 2>/dev/null | tar -x -C "$2"; }
`

/**
 * Appends an archive to the disk and deletes the archive's file.
 * @returns the block of the disk at which the archive begins
 */
export async function putBehind(disk: string, archive: string, signal: AbortSignal): Promise<number> {
  const block = Math.ceil((await stat(disk)).size / blockBytes)
  await truncate(disk, block * blockBytes)
  await pipeline(createReadStream(archive), createWriteStream(disk, { flags: 'a' }), { signal })
  await rm(archive)
  return block
}

/**
 * Archives behind that of the source on its disk: an emulated VM has device slots for three drives of a build, and they
 * are taken.
 */
import { createReadStream, createWriteStream } from 'node:fs'
import { rm, stat, truncate } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'

/** Archives begin at multiples of it, so that a guest reads them in large blocks. */
const blockBytes = 1 << 20

/** Shell function: `unpack_behind <block> <directory>` unpacks the archive that begins at the block. Needs `findDisk`. */
export const unpackBehind = `unpack_behind() { dd if="$(disk source)" bs=${blockBytes} skip="$1" 2>/dev/null | tar -x -C "$2"; }
`

/**
 * Moves an archive to the end of the disk.
 * @returns the block at which it begins there
 */
export async function putBehind(disk: string, archive: string, signal: AbortSignal): Promise<number> {
  const block = Math.ceil((await stat(disk)).size / blockBytes)
  await truncate(disk, block * blockBytes)
  await pipeline(createReadStream(archive), createWriteStream(disk, { flags: 'a' }), { signal })
  await rm(archive)
  return block
}

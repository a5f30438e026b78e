/**
 * Where servers of tests keep what they forget anyway. Each test file makes a database of some 400 files and removes it;
 * ext4 does not give out an inode again that was freed within the last minute, and looks at each of them for every new file:
 * a fifth of all CPU time of the suite.
 */
import { statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'

const sharedMemory = '/dev/shm'
/** TMPFS_MAGIC of linux/magic.h. */
const tmpfs = 0x01021994
/** A dozen databases at once, their logs, and the PostgreSQL of whole clouds. */
const neededBytes = 4 * 2 ** 30

/** A directory in memory, where there is one with enough room; else that for temporary files. */
export async function inMemory(): Promise<string> {
  const found = await statfs(sharedMemory).catch(() => undefined)
  return found?.type === tmpfs && found.bavail * found.bsize >= neededBytes ? sharedMemory : tmpdir()
}

/**
 * Chooses the directory for servers whose data tests discard. Each test file creates a database of some 400 files and
 * removes it; ext4 does not reuse an inode within a minute after it is freed, and examines each of them for every new
 * file: a fifth of all CPU time of the suite.
 */
import { statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'

const sharedMemory = '/dev/shm'
/** TMPFS_MAGIC of linux/magic.h. */
const tmpfs = 0x01021994
/** Enough for a dozen databases at once, their logs, and the PostgreSQL servers of whole clouds. */
const neededBytes = 4 * 2 ** 30

/** Returns a directory in memory if it has enough room, else the directory for temporary files. */
export async function inMemory(): Promise<string> {
  const found = await statfs(sharedMemory).catch(() => undefined)
  return found?.type === tmpfs && found.bavail * found.bsize >= neededBytes ? sharedMemory : tmpdir()
}

/**
 * Chooses the directory for test servers whose data are discarded: in memory if possible. Each test file creates and
 * removes a database of about 400 files. ext4 does not reuse an inode within a minute after it is freed, and examines
 * all freed ones for every new file, which took a fifth of the suite's CPU time.
 */
import { statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'

const sharedMemory = '/dev/shm'
/** File system type of tmpfs: TMPFS_MAGIC (linux/magic.h). */
const tmpfs = 0x01021994
/**
 * Required free memory: enough for a dozen databases at once, their logs, and the PostgreSQL servers of whole clouds.
 */
const neededBytes = 4 * 2 ** 30

/** Returns a directory in memory if it has enough free space, otherwise the directory for temporary files. */
export async function inMemory(): Promise<string> {
  const found = await statfs(sharedMemory).catch(() => undefined)
  return found?.type === tmpfs && found.bavail * found.bsize >= neededBytes ? sharedMemory : tmpdir()
}

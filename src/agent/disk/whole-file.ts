/** Files that are there whole, or not at all. */
import { open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { run } from '../../lib/exec.ts'

/** The file is there whole, on the disk, or not at all; what a crash left of an earlier try is overwritten. */
export async function appear(target: string, make: (partial: string) => Promise<void>): Promise<void> {
  const partial = `${target}.partial`
  await rm(partial, { force: true })
  try {
    await make(partial)
    await sync(partial)
    await rename(partial, target)
    await sync(dirname(target))
  } catch (error) {
    await rm(partial, { force: true })
    throw error
  }
}

/** Keeps holes; shares blocks where the file system can. */
export async function copy(from: string, to: string): Promise<void> {
  await run('cp', ['--sparse=always', '--reflink=auto', '--', from, to])
}

/** What was written is on the disk: of a file, or of a directory. */
export async function sync(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Creates files atomically, and copies them. */
import { open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { run } from '../../lib/exec.ts'

/** Creates a file atomically and durably. Overwrites the partial file of an earlier attempt. */
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

/** Copies a file. Preserves holes, and shares blocks where the file system supports it. */
export async function copy(from: string, to: string): Promise<void> {
  await run('cp', ['--sparse=always', '--reflink=auto', '--', from, to])
}

/** Flushes a file or directory to the disk. */
export async function sync(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

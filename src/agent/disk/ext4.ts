import { stat, truncate, writeFile } from 'node:fs/promises'
import { run } from '../../lib/exec.ts'

/**
 * Creates a sparse file with an ext4 file system.
 * @param content directory whose files the file system initially contains
 * @throws Error if the file exists
 */
export async function makeEmpty(file: string, sizeMib: number, content?: string): Promise<void> {
  await writeFile(file, '', { mode: 0o600, flag: 'wx' })
  await truncate(file, sizeMib * 2 ** 20)
  await run('mke2fs', await newFileSystem(file, content))
}

/** Returns mke2fs arguments for a volume: no blocks are reserved for root, and mke2fs writes as little as possible. */
export async function newFileSystem(file: string, content?: string): Promise<string[]> {
  const options = 'nodiscard,lazy_itable_init=1'
  const begin = ['-q', '-F', '-t', 'ext4', '-m', '0', '-E']
  if (content === undefined) return [...begin, options, file]
  // mke2fs preserves the owners of the directory's files, but not that of the directory itself.
  const { uid, gid } = await stat(content)
  return [...begin, `${options},root_owner=${uid}:${gid}`, '-d', content, file]
}

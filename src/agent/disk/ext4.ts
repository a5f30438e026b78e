import { truncate, writeFile } from 'node:fs/promises'
import { run } from '../../lib/exec.ts'

/** A sparse file with an empty file system. @throws Error when the file exists */
export async function makeEmpty(file: string, sizeMib: number): Promise<void> {
  await writeFile(file, '', { mode: 0o600, flag: 'wx' })
  await truncate(file, sizeMib * 2 ** 20)
  await run('mke2fs', emptyFileSystem(file))
}

/** Arguments of mke2fs for a volume: no blocks kept back for root, and nothing written that need not be. */
export function emptyFileSystem(file: string): string[] {
  return ['-q', '-F', '-t', 'ext4', '-m', '0', '-E', 'nodiscard,lazy_itable_init=1', file]
}

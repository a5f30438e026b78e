import { mkdir, rename, rm, truncate, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { run } from '../../lib/exec.ts'
import { hostLock } from '../../lib/host-lock.ts'
import type { RunCommand } from '../launcher/launcher.ts'

/**
 * Creates a new, empty scratch disk for a VM by copying a sparse ext4 image of the same size, which takes 4 ms (with
 * shared blocks where the file system supports reflinks). It has no journal, because every boot starts with an empty
 * disk.
 */
export async function makeScratch(
  cacheDir: string,
  target: string,
  sizeMib: number,
  runs: RunCommand = run,
): Promise<void> {
  const template = await scratchTemplate(cacheDir, sizeMib)
  await rm(target, { force: true })
  await runs('cp', ['--sparse=always', '--reflink=auto', '--', template, target])
}

async function scratchTemplate(cacheDir: string, sizeMib: number): Promise<string> {
  const file = join(cacheDir, 'scratch', `${sizeMib}.img`)
  if (existsSync(file)) return file
  const lock = await hostLock(`scratch ${file}`)
  try {
    if (existsSync(file)) return file
    await mkdir(dirname(file), { recursive: true })
    const partial = `${file}.partial`
    await writeFile(partial, '', { mode: 0o600 })
    await truncate(partial, sizeMib * 2 ** 20)
    const features = [
      '-O',
      '^has_journal,^resize_inode',
      '-m',
      '0',
      '-E',
      'lazy_itable_init=1,root_owner=0:0,nodiscard',
    ]
    await run('mke2fs', ['-q', '-F', '-t', 'ext4', ...features, partial])
    await rename(partial, file)
    return file
  } finally {
    await lock.release()
  }
}

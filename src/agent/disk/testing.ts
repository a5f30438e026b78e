/** File systems of a test, on loop devices. Needs root. */
import { mkdir, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../lib/exec.ts'
import { hasProgram } from '../../lib/programs.ts'

export type LoopFileSystem = 'btrfs' | 'xfs'

/** Why there is none on this machine; undefined when there is. */
export async function whyNoLoop(kind: LoopFileSystem): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return 'needs root'
  return (await hasProgram(`mkfs.${kind}`)) ? undefined : `needs mkfs.${kind}`
}

/** A directory on a fresh file system of that kind, and what unmounts it. */
export async function loopFileSystem(
  kind: LoopFileSystem,
  dir: string,
  sizeMib: number,
): Promise<{ readonly path: string } & AsyncDisposable> {
  const [image, path] = [join(dir, `${kind}.img`), join(dir, kind)]
  await writeFile(image, '')
  await truncate(image, sizeMib * 2 ** 20)
  await run(`mkfs.${kind}`, ['-q', image])
  await mkdir(path)
  await run('mount', ['-o', 'loop', image, path])
  return {
    path,
    async [Symbol.asyncDispose]() {
      await run('umount', [path])
    },
  }
}

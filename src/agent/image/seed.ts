/**
 * Seeds: initial content that a database image provides for new volumes. It is kept as a directory on the host, so that
 * guests need not copy it.
 */
import { existsSync } from 'node:fs'
import { chmod, lstat, mkdir, readdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { run } from '../../lib/exec.ts'
import { isEngine } from './engines.ts'
import type { ImageReference } from './reference.ts'

/** Path of the volume content in a database image. */
export const volumeContent = 'usr/share/mote/volume'

/** Returns the seed directory of a base; undefined if it has none. */
export const seedOf = (baseDir: string): string | undefined => {
  const dir = join(baseDir, 'seed')
  return existsSync(dir) ? dir : undefined
}

/** Whether the seed of an image is kept. Only database images that the operator made may create files on the host. */
export const keepsSeed = (reference: ImageReference): boolean => reference.kind === 'layout' && isEngine(reference.name)

/**
 * Copies the image's volume content next to its base: files, directories and links, without set-user-ID bits and
 * extended attributes. Does nothing without root, because the files' owners are not known then and the guest copies the
 * content instead.
 */
export async function keepSeed(rootfs: string, baseDir: string, signal: AbortSignal): Promise<void> {
  const source = join(rootfs, volumeContent)
  if (process.getuid?.() !== 0 || !existsSync(source)) return
  const target = join(baseDir, 'seed')
  await mkdir(dirname(target), { recursive: true })
  const preserved = '--preserve=mode,ownership,timestamps,links'
  await run('cp', ['-R', '-P', preserved, '--reflink=auto', '--', source, target], { signal })
  await disarm(target)
}

/** The set-user-ID and set-group-ID bits. */
const privileged = 0o6000

/**
 * Removes special files and privileged mode bits. Only the agent can access the directory at this time (`privateDir`).
 */
async function disarm(path: string): Promise<void> {
  const found = await lstat(path)
  if (found.isSymbolicLink()) return
  if (!found.isFile() && !found.isDirectory()) return rm(path)
  if ((found.mode & privileged) !== 0) await chmod(path, found.mode & 0o1777)
  if (found.isDirectory()) for (const name of await readdir(path)) await disarm(join(path, name))
}

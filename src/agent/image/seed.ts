/** What a database image gives new volumes to begin with: a directory, so that no guest has to make or copy it. */
import { existsSync } from 'node:fs'
import { chmod, lstat, mkdir, readdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { run } from '../../lib/exec.ts'
import { isEngine } from './engines.ts'
import type { ImageReference } from './reference.ts'

/** In the image. */
export const volumeContent = 'usr/share/mote/volume'

/** Of a base, in its directory. */
export const seedOf = (baseDir: string): string | undefined => {
  const dir = join(baseDir, 'seed')
  return existsSync(dir) ? dir : undefined
}

/** Only images that the operator has made of database engines: what another one has becomes files of the host for nobody. */
export const keepsSeed = (reference: ImageReference): boolean => reference.kind === 'layout' && isEngine(reference.name)

/**
 * Keeps the image's content for volumes beside its base: files, directories and links, without set-user-ID bits and
 * attributes. Without root its owners are not known: the guest copies it.
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

/** Set-user-ID, set-group-ID. */
const privileged = 0o6000

/** Nobody but the agent can reach the directory meanwhile (`privateDir`). */
async function disarm(path: string): Promise<void> {
  const found = await lstat(path)
  if (found.isSymbolicLink()) return
  if (!found.isFile() && !found.isDirectory()) return rm(path)
  if ((found.mode & privileged) !== 0) await chmod(path, found.mode & 0o1777)
  if (found.isDirectory()) for (const name of await readdir(path)) await disarm(join(path, name))
}

/** What an image gives new volumes of its VMs to begin with: a directory, so that no guest has to make or copy it. */
import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { run } from '../../lib/exec.ts'

/** In the image. */
export const volumeContent = 'usr/share/mote/volume'

/** Of a base, in its directory. */
export const seedOf = (baseDir: string): string | undefined => {
  const dir = join(baseDir, 'seed')
  return existsSync(dir) ? dir : undefined
}

/** Keeps the image's content for volumes beside its base. Without root its owners are not known: the guest copies it. */
export async function keepSeed(rootfs: string, baseDir: string, signal: AbortSignal): Promise<void> {
  const source = join(rootfs, volumeContent)
  if (process.getuid?.() !== 0 || !existsSync(source)) return
  const target = join(baseDir, 'seed')
  await mkdir(dirname(target), { recursive: true })
  await run('cp', ['-a', '--reflink=auto', '--', source, target], { signal })
}

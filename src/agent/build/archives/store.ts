/**
 * The host's cache of toolchain archives, shared by all agents of the host. Only agents write to it: guests get copies
 * on disks of their own. An archive is named by its checksum, and appears complete or not at all.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir, rename, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { abortable } from '../../../lib/abortable.ts'
import { hasCode, privateDir } from '../../../lib/files.ts'
import { tryHostLock } from '../../../lib/host-lock.ts'
import { cachedDir, partialSuffix } from '../../guest/cache.ts'
import { share } from '../compose.ts'
import type { Archive, Downloads } from './download.ts'

export const archivesIn = (cacheDir: string) => join(cacheDir, 'toolchains')

export interface ArchiveStore {
  /**
   * Copies or links the archive to `target`, after downloading it if it is not in the cache. Builds that need the same
   * archive at the same time share the download.
   * @returns whether it was downloaded
   * @throws Error if the download fails or does not match the checksum
   */
  put(archive: Archive, target: string, signal: AbortSignal): Promise<boolean>
}

const nameOf = ({ algorithm, checksum }: Archive) => `${algorithm}-${checksum}`

/** @param maxMib limit on the cache; beyond it, the least recently used archives are removed */
export function archiveStore(cacheDir: string, maxMib: number, downloads: Downloads): ArchiveStore {
  const root = archivesIn(cacheDir)
  return {
    async put(archive, target, signal) {
      await privateDir(root)
      const dir = join(root, nameOf(archive))
      let downloaded = false
      // A power failure can leave an archive with wrong content. Such an archive is removed and downloaded again.
      for (let tries = 0; ; tries++) {
        // The download continues if this build is canceled, because another build may wait for it.
        const made = cachedDir(dir, async partial => {
          await downloads.file(archive, join(partial, 'archive'))
          downloaded = true
        })
        await abortable(made, signal)
        if (await shared(archive, dir, target)) break
        if (tries === 2)
          throw new Error(
            `the archive of ${archive.url} was damaged or missing in the cache of this host after 3 downloads: check the disk of the host, and whether MOTE_TOOLCHAIN_MIB is too small`,
          )
        await remove(root, nameOf(archive))
      }
      if (downloaded) await limitArchives(cacheDir, maxMib)
      return downloaded
    },
  }
}

/**
 * Copies or links a cached archive to `target`. Returns false if the archive's content is wrong, or if another build
 * removed it meanwhile.
 */
async function shared({ algorithm, checksum }: Archive, dir: string, target: string): Promise<boolean> {
  try {
    const now = new Date()
    await utimes(dir, now, now)
    await share(join(dir, 'archive'), target)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false
    throw error
  }
  const hash = createHash(algorithm)
  await pipeline(createReadStream(target), hash)
  if (hash.digest('hex') === checksum) return true
  await rm(target, { force: true })
  return false
}

/** Returns the cached archives, least recently used first. */
async function archivesOf(root: string): Promise<Array<{ name: string; bytes: number; usedMs: number }>> {
  const names = (await readdir(root).catch(() => [])).filter(name => /^sha\d+-[0-9a-f]+$/.test(name))
  const all = await Promise.all(
    names.map(async name => {
      const [dir, file] = await Promise.all([stat(join(root, name)), stat(join(root, name, 'archive'))])
      return { name, bytes: file.size, usedMs: dir.mtimeMs }
    }),
  ).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return archivesOf(root)
    throw error
  })
  return all.toSorted((a, b) => a.usedMs - b.usedMs)
}

/** Returns the number of cached archives and their total size. */
export async function archivesUsage(cacheDir: string): Promise<{ readonly count: number; readonly mib: number }> {
  const all = await archivesOf(archivesIn(cacheDir))
  return { count: all.length, mib: Math.ceil(sumOf(all) / 2 ** 20) }
}

const sumOf = (all: ReadonlyArray<{ readonly bytes: number }>) => all.reduce((sum, { bytes }) => sum + bytes, 0)

/**
 * Removes the least recently used archives until the rest is within the limit. Running builds have their own links or
 * copies.
 */
export async function limitArchives(cacheDir: string, maxMib: number): Promise<void> {
  const lock = await tryHostLock(`limit toolchains ${cacheDir}`)
  if (!lock) return
  try {
    const root = archivesIn(cacheDir)
    const all = await archivesOf(root)
    let excess = sumOf(all) - maxMib * 2 ** 20
    for (const { name, bytes } of all) {
      if (excess <= 0) break
      await remove(root, name)
      excess -= bytes
    }
  } finally {
    await lock.release()
  }
}

async function remove(root: string, name: string): Promise<void> {
  const gone = join(root, `${name}.removed${partialSuffix}`)
  await rm(gone, { recursive: true, force: true })
  await rename(join(root, name), gone).catch((error: unknown) => {
    if (!hasCode(error, 'ENOENT')) throw error
  })
  await rm(gone, { recursive: true, force: true })
}

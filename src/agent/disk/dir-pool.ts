import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, stat, statfs, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../lib/exec.ts'
import { hasCode } from '../../lib/files.ts'
import { StepError } from '../base/step-error.ts'
import { makeEmpty } from './ext4.ts'
import { luksHeaderBytes, makeLuks } from './luks.ts'
import { checkedId, type VolumePool } from './pool.ts'
import { appear, copy, sync } from './whole-file.ts'

/**
 * A pool of sparse raw files in a directory, which works on any host. On file systems with reflinks (btrfs, xfs),
 * snapshots, clones and restores share blocks and only write metadata; elsewhere they are sparse copies.
 */
export function dirPool(name: string, dir: string, encrypted = false): VolumePool {
  const fileOf = (volumeId: string) => join(dir, `${checkedId(volumeId)}.raw`)
  const snapshotsOf = (volumeId: string) => join(dir, `${checkedId(volumeId)}.snapshots`)
  const snapshotOf = (volumeId: string, snapshotId: string) =>
    join(snapshotsOf(volumeId), `${checkedId(snapshotId)}.raw`)
  const existing = (volumeId: string): string => {
    const file = fileOf(volumeId)
    if (existsSync(file)) return file
    throw new StepError('volume_missing', `pool ${name} has no volume ${volumeId}`)
  }
  let reflinks: Promise<boolean> | undefined
  const snapshotBy: VolumePool['snapshotBy'] = async (volumeId, snapshotId, write) => {
    const target = snapshotOf(volumeId, snapshotId)
    const { size } = await stat(existing(volumeId))
    if (existsSync(target)) return
    await mkdir(snapshotsOf(volumeId), { recursive: true, mode: 0o700 })
    await appear(target, async partial => {
      await writeFile(partial, '', { mode: 0o600, flag: 'wx' })
      await truncate(partial, size)
      await write(partial)
    })
  }
  return {
    name,
    kind: encrypted ? 'dir-luks' : 'dir',
    shared: false,
    encrypted,
    async create(volumeId, sizeMib, from, key) {
      const file = fileOf(volumeId)
      if (existsSync(file)) return
      await mkdir(dir, { recursive: true, mode: 0o700 })
      if (from && 'snapshotId' in from) {
        const source = snapshotOf(from.volumeId, from.snapshotId)
        if (!existsSync(source))
          throw new StepError('snapshot_missing', `pool ${name} has no snapshot ${from.snapshotId}`)
        await appear(file, partial => copy(source, partial))
      } else if (!encrypted) await appear(file, partial => makeEmpty(partial, sizeMib, from?.directory))
      else if (key) await appear(file, partial => makeLuks(partial, sizeMib, key, from?.directory))
      else throw new StepError('volume_locked', `volume ${volumeId} cannot be created without its key`)
    },
    open: async volumeId => existing(volumeId),
    close: async () => undefined,
    async remove(volumeId) {
      await rm(fileOf(volumeId), { force: true })
      await rm(snapshotsOf(volumeId), { recursive: true, force: true })
    },
    async snapshot(volumeId, snapshotId) {
      const target = snapshotOf(volumeId, snapshotId)
      const source = existing(volumeId)
      if (existsSync(target)) return
      await mkdir(snapshotsOf(volumeId), { recursive: true, mode: 0o700 })
      await appear(target, partial => copy(source, partial))
    },
    ...(encrypted ? {} : { snapshotBy, copies: async () => !(await (reflinks ??= hasReflinks(dir))) }),
    async removeSnapshot(volumeId, snapshotId) {
      await rm(snapshotOf(volumeId, snapshotId), { force: true })
    },
    async restore(volumeId, snapshotId) {
      const source = snapshotOf(volumeId, snapshotId)
      if (!existsSync(source)) throw new StepError('snapshot_missing', `pool ${name} has no snapshot ${snapshotId}`)
      await appear(fileOf(volumeId), partial => copy(source, partial))
    },
    async grow(volumeId, sizeMib) {
      const file = existing(volumeId)
      const bytes = sizeMib * 2 ** 20 + (encrypted ? await luksHeaderBytes(file) : 0)
      if ((await stat(file)).size >= bytes) return
      await truncate(file, bytes)
      await sync(file)
    },
    async blank(volumeId, bytes) {
      await mkdir(dir, { recursive: true, mode: 0o700 })
      await appear(fileOf(volumeId), async partial => {
        await writeFile(partial, '', { mode: 0o600, flag: 'wx' })
        await truncate(partial, bytes)
      })
    },
    async readSnapshot(volumeId, snapshotId, read) {
      const file = snapshotOf(volumeId, snapshotId)
      if (!existsSync(file)) throw new StepError('snapshot_missing', `pool ${name} has no snapshot ${snapshotId}`)
      await read(file)
    },
    async usage(volumeId) {
      const { blocks } = await stat(existing(volumeId))
      return { usedBytes: blocks * 512, snapshotBytes: await bytesIn(snapshotsOf(volumeId)) }
    },
    async freeBytes() {
      await mkdir(dir, { recursive: true, mode: 0o700 })
      const { bavail, bsize } = await statfs(dir)
      return bavail * bsize
    },
  }
}

/** Tests whether two files in the directory can share blocks. */
async function hasReflinks(dir: string): Promise<boolean> {
  const trial = await mkdtemp(join(dir, '.reflink-'))
  try {
    const file = join(trial, 'one')
    await writeFile(file, Buffer.alloc(4096, 1))
    return await run('cp', ['--reflink=always', '--', file, join(trial, 'two')]).then(
      () => true,
      () => false,
    )
  } finally {
    await rm(trial, { recursive: true, force: true })
  }
}

/**
 * Returns the disk space of all files in the directory. A file with shared blocks (reflink) counts in full, because
 * finding those blocks would need a walk of its extents.
 */
async function bytesIn(dir: string): Promise<number> {
  let bytes = 0
  for (const name of await readdir(dir).catch(none)) {
    // A concurrent operation may delete or rename a snapshot between `readdir` and `stat`.
    const [file] = await stat(join(dir, name)).then(one => [one], none)
    bytes += (file?.blocks ?? 0) * 512
  }
  return bytes
}

function none(error: unknown): [] {
  if (hasCode(error, 'ENOENT')) return []
  throw error
}

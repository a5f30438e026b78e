import { existsSync } from 'node:fs'
import { mkdir, rename, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../lib/exec.ts'
import type { VolumePool } from './pool.ts'

/** Sparse raw files in a directory: works anywhere; copies are reflinks where the file system has them. */
export function dirPool(name: string, dir: string): VolumePool {
  const fileOf = (volumeId: string) => join(dir, `${checked(volumeId)}.raw`)
  const snapshotOf = (volumeId: string, snapshotId: string) =>
    join(dir, `${checked(volumeId)}.snapshots`, `${checked(snapshotId)}.raw`)
  return {
    name,
    async ensure(volumeId, sizeMib) {
      const file = fileOf(volumeId)
      if (existsSync(file)) return file
      await mkdir(dir, { recursive: true, mode: 0o700 })
      const partial = `${file}.partial`
      await writeFile(partial, '', { mode: 0o600 })
      await truncate(partial, sizeMib * 2 ** 20)
      await run('mke2fs', ['-q', '-F', '-t', 'ext4', '-m', '0', '-E', 'nodiscard,lazy_itable_init=1', partial])
      await rename(partial, file)
      return file
    },
    async remove(volumeId) {
      await rm(fileOf(volumeId), { force: true })
      await rm(join(dir, `${checked(volumeId)}.snapshots`), { recursive: true, force: true })
    },
    async snapshot(volumeId, snapshotId) {
      await mkdir(join(dir, `${checked(volumeId)}.snapshots`), { recursive: true, mode: 0o700 })
      await copyWhole(fileOf(volumeId), snapshotOf(volumeId, snapshotId))
    },
    async clone(volumeId, snapshotId, newVolumeId) {
      const file = fileOf(newVolumeId)
      if (existsSync(file)) throw new Error(`there is a volume ${newVolumeId} already`)
      await copyWhole(snapshotOf(volumeId, snapshotId), file)
    },
    async usage(volumeId) {
      const { blocks, size } = await stat(fileOf(volumeId))
      return { usedBytes: blocks * 512, sizeBytes: size }
    },
  }
}

/** Complete or not there at all. */
async function copyWhole(from: string, to: string): Promise<void> {
  await run('cp', ['--sparse=always', '--reflink=auto', '--', from, `${to}.partial`])
  await rename(`${to}.partial`, to)
}

/** Ids become file names. */
function checked(id: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(id)) return id
  throw new Error('an id has letters, digits, - and _ only')
}

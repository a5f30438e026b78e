import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { DiskSpec } from '../../contract/agent.ts'
import { readIfExists, writeFileAtomic } from '../../lib/files.ts'
import { StepError } from '../vm/errors.ts'
import { dirPool } from './dir-pool.ts'
import type { VolumePool } from './pool.ts'

/** The volumes of this host, by pool. */
export interface Volumes {
  /**
   * The volume's file, made at first use, for an attachment of this generation.
   * @throws StepError `stale_volume_generation` when a later attachment has been seen here, `no_such_pool`
   */
  open(disk: DiskSpec): Promise<string>
}

export function hostVolumes(dataDir: string): Volumes {
  const pools = new Map<string, VolumePool>()
  const poolOf = (name: string): VolumePool => {
    if (!/^[a-z0-9][a-z0-9_-]{0,31}$/.test(name)) throw new StepError('no_such_pool', 'a pool has a short plain name')
    const pool = pools.get(name) ?? dirPool(name, join(dataDir, 'volumes', name))
    pools.set(name, pool)
    return pool
  }
  return {
    async open(disk) {
      const file = await poolOf(disk.pool).ensure(disk.volumeId, disk.sizeMib)
      await fence(join(dataDir, 'volumes', disk.pool, 'generations'), disk)
      return file
    },
  }
}

/** The highest generation survives a power cut before anything is attached under it. */
async function fence(dir: string, { volumeId, generation }: DiskSpec): Promise<void> {
  const file = join(dir, volumeId)
  const seen = Number((await readIfExists(file)) ?? 0)
  if (generation < seen) {
    const message = `volume ${volumeId} was attached under generation ${seen}, ${generation} is older`
    throw new StepError('stale_volume_generation', message)
  }
  if (generation === seen) return
  await mkdir(dir, { recursive: true, mode: 0o700 })
  await writeFileAtomic(file, String(generation))
}

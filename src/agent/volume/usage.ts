import type { PoolOffer, VolumeUsages } from '../../contract/agent.ts'
import type { VolumePool } from '../disk/pool.ts'
import { poolOf } from './deps.ts'
import type { Volumes } from './volumes.ts'

/**
 * Free space is rounded down to a multiple of this size, so that small changes do not change the heartbeat of a host.
 */
const stepBytes = 256 * 2 ** 20

/** Measures the space that each volume uses. Volumes that cannot be measured are left out. */
export async function measure(
  volumes: Pick<Volumes, 'ready'>,
  pools: ReadonlyMap<string, VolumePool>,
): Promise<VolumeUsages> {
  const all = volumes.ready().map(async ({ volumeId, pool }) => {
    const usage = await poolOf(pools, pool).usage(volumeId)
    return { volumeId, ...usage }
  })
  const settled = await Promise.allSettled(all)
  return { volumes: settled.flatMap(one => (one.status === 'fulfilled' ? [one.value] : [])) }
}

/** Describes the pools for the host's heartbeat. A pool that cannot be measured is reported without free space. */
export function offers(pools: ReadonlyMap<string, VolumePool>): Promise<PoolOffer[]> {
  return Promise.all(
    [...pools.values()].map(async ({ name, kind, shared, encrypted, ...pool }) => {
      const free = await pool.freeBytes().catch(() => 0)
      return { name, kind, shared, encrypted, freeBytes: Math.floor(free / stepBytes) * stepBytes }
    }),
  )
}

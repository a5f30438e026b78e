import type { PoolOffer, VolumeUsages } from '../../contract/agent.ts'
import type { VolumePool } from '../disk/pool.ts'
import { poolOf } from './deps.ts'
import type { Volumes } from './volumes.ts'

/** Free space is rounded down to steps, so that heartbeats of a quiet host stay equal. */
const stepBytes = 256 * 2 ** 20

/** Measures the space that the volumes use; volumes that cannot be measured are left out. */
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

/** Describes the pools for the host's heartbeat. A pool that does not answer has no free space. */
export function offers(pools: ReadonlyMap<string, VolumePool>): Promise<PoolOffer[]> {
  return Promise.all(
    [...pools.values()].map(async ({ name, kind, shared, encrypted, ...pool }) => {
      const free = await pool.freeBytes().catch(() => 0)
      return { name, kind, shared, encrypted, freeBytes: Math.floor(free / stepBytes) * stepBytes }
    }),
  )
}

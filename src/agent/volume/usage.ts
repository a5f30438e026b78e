import type { PoolOffer, VolumeUsages } from '../../contract/agent.ts'
import type { VolumePool } from '../disk/pool.ts'
import { poolOf, type Volumes } from './volumes.ts'

/** Free space is told in steps, so that beats of a quiet host stay equal. */
const stepBytes = 256 * 2 ** 20

/** What the volumes really take now; one that cannot be measured is left out. */
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

/** The pools as the host's beat tells of them; one that does not answer has no room. */
export function offers(pools: ReadonlyMap<string, VolumePool>): Promise<PoolOffer[]> {
  return Promise.all(
    [...pools.values()].map(async ({ name, kind, shared, encrypted, ...pool }) => {
      const free = await pool.freeBytes().catch(() => 0)
      return { name, kind, shared, encrypted, freeBytes: Math.floor(free / stepBytes) * stepBytes }
    }),
  )
}

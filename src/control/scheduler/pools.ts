/** Decides which host can store which volumes. Pure functions, like those of `place.ts`. */

/** A storage pool of a host, and the space that it can still assign. */
export interface PoolView {
  readonly hostId: string
  readonly name: string
  /** True if all hosts with a pool of this name can access the same volumes. */
  readonly shared: boolean
  readonly encrypted: boolean
  readonly roomMib: number
}

export interface VolumeNeed {
  readonly volumeId: string
  /** Name of the required pool; empty: any pool. */
  readonly poolName: string
  readonly sizeMib: number
  /** Host that stores the volume; null: no host stores it yet. */
  readonly hostId: string | null
  readonly bound: boolean
}

/** Name of the pool for volumes that do not request one, if the host has such a pool. */
export const defaultPool = 'local'

/** Returns the host's pool for each volume; undefined when one of the volumes is unreachable or does not fit. */
export function fitVolumes(
  pools: readonly PoolView[],
  hostId: string,
  volumes: readonly VolumeNeed[],
): ReadonlyMap<string, PoolView> | undefined {
  const here = pools.filter(pool => pool.hostId === hostId)
  const room = new Map(here.map(pool => [pool.name, pool.roomMib]))
  const found = new Map<string, PoolView>()
  for (const volume of volumes) {
    if (volume.hostId !== null && volume.bound && volume.hostId !== hostId) return undefined
    const placed = volume.hostId !== null
    const fits = (pool: PoolView) => placed || (room.get(pool.name) ?? 0) >= volume.sizeMib
    const pool = candidates(here, volume.poolName).find(fits)
    if (!pool) return undefined
    found.set(volume.volumeId, pool)
    if (!placed) room.set(pool.name, (room.get(pool.name) ?? 0) - volume.sizeMib)
  }
  return found
}

/** Reasons why a host cannot store or reach a volume. */
export type PoolObstacle = 'elsewhere' | 'no pool' | 'no room'

/** Returns why the host cannot store or reach the volume; undefined when it can. */
export function poolObstacle(pools: readonly PoolView[], hostId: string, volume: VolumeNeed): PoolObstacle | undefined {
  if (fitVolumes(pools, hostId, [volume])) return undefined
  if (volume.hostId !== null && volume.bound && volume.hostId !== hostId) return 'elsewhere'
  const here = pools.filter(pool => pool.hostId === hostId)
  return candidates(here, volume.poolName).length === 0 ? 'no pool' : 'no room'
}

/**
 * Returns the target pool on another host for each volume that is copied there: a pool of the same name if possible,
 * otherwise the one with the most free space; encrypted exactly if the old pool is. Undefined when one of the volumes
 * does not fit.
 */
export function fitMoved(
  pools: readonly PoolView[],
  hostId: string,
  volumes: readonly VolumeNeed[],
): ReadonlyMap<string, PoolView> | undefined {
  const room = new Map(pools.filter(pool => pool.hostId === hostId).map(pool => [pool, pool.roomMib]))
  const found = new Map<string, PoolView>()
  for (const { volumeId, poolName, hostId: from, sizeMib } of volumes) {
    const now = pools.find(pool => pool.hostId === from && pool.name === poolName)
    const fits = [...room]
      .filter(([pool, roomMib]) => !pool.shared && pool.encrypted === now?.encrypted && roomMib >= sizeMib)
      .toSorted(([a, aMib], [b, bMib]) => Number(b.name === poolName) - Number(a.name === poolName) || bMib - aMib)
    const [pool, roomMib] = fits[0] ?? []
    if (!pool) return undefined
    found.set(volumeId, pool)
    room.set(pool, (roomMib ?? 0) - sizeMib)
  }
  return found
}

/** Returns the named pool. Without a name, returns all pools: the default pool first, then the others by free space. */
function candidates(here: readonly PoolView[], name: string): readonly PoolView[] {
  if (name !== '') return here.filter(pool => pool.name === name)
  return here.toSorted(
    (a, b) => Number(b.name === defaultPool) - Number(a.name === defaultPool) || b.roomMib - a.roomMib,
  )
}

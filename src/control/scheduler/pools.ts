/** Which host can hold which volumes. Pure, like `place.ts`. */

/** A storage pool of a host, and what may still be promised there. */
export interface PoolView {
  readonly hostId: string
  readonly name: string
  /** Every host with a pool of this name reaches the same volumes. */
  readonly shared: boolean
  readonly encrypted: boolean
  readonly roomMib: number
}

export interface VolumeNeed {
  readonly volumeId: string
  /** Empty: any. */
  readonly poolName: string
  readonly sizeMib: number
  /** Where it is; null: nowhere yet. */
  readonly hostId: string | null
  readonly bound: boolean
}

/** What a volume without a wish goes to when its host has it. */
export const defaultPool = 'local'

/** The pool of the host for each volume; undefined when one of them cannot be reached, or does not fit there. */
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

/** Why a host cannot have the volume. */
export type PoolObstacle = 'elsewhere' | 'no pool' | 'no room'

/** Undefined: it can. */
export function poolObstacle(pools: readonly PoolView[], hostId: string, volume: VolumeNeed): PoolObstacle | undefined {
  if (fitVolumes(pools, hostId, [volume])) return undefined
  if (volume.hostId !== null && volume.bound && volume.hostId !== hostId) return 'elsewhere'
  const here = pools.filter(pool => pool.hostId === hostId)
  return candidates(here, volume.poolName).length === 0 ? 'no pool' : 'no room'
}

/**
 * The pool of another host for each volume that moves there with what it holds: of the same name where there is one, else
 * with most room; encrypted as before. Undefined when one of them does not fit there.
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

/** The named one; without a name the default one, then those with most room. */
function candidates(here: readonly PoolView[], name: string): readonly PoolView[] {
  if (name !== '') return here.filter(pool => pool.name === name)
  return here.toSorted(
    (a, b) => Number(b.name === defaultPool) - Number(a.name === defaultPool) || b.roomMib - a.roomMib,
  )
}

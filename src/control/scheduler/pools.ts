/** Decides which host can store which volumes. Pure, like `place.ts`. */

/** A storage pool of a host, and the room that it can still assign. */
export interface PoolView {
  readonly hostId: string
  readonly name: string
  /** All hosts with a pool of this name reach the same volumes. */
  readonly shared: boolean
  readonly encrypted: boolean
  readonly roomMib: number
}

export interface VolumeNeed {
  readonly volumeId: string
  /** Empty: any pool. */
  readonly poolName: string
  readonly sizeMib: number
  /** Current host; null: none yet. */
  readonly hostId: string | null
  readonly bound: boolean
}

/** The pool for volumes that request none, if the host has it. */
export const defaultPool = 'local'

/** Returns the host's pool for each volume; undefined when one of them is unreachable or does not fit. */
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

/** Reasons why a host cannot have the volume. */
export type PoolObstacle = 'elsewhere' | 'no pool' | 'no room'

/** Returns undefined when the host can have the volume. */
export function poolObstacle(pools: readonly PoolView[], hostId: string, volume: VolumeNeed): PoolObstacle | undefined {
  if (fitVolumes(pools, hostId, [volume])) return undefined
  if (volume.hostId !== null && volume.bound && volume.hostId !== hostId) return 'elsewhere'
  const here = pools.filter(pool => pool.hostId === hostId)
  return candidates(here, volume.poolName).length === 0 ? 'no pool' : 'no room'
}

/**
 * Returns a pool of another host for each volume that moves there with its content: of the same name if possible,
 * otherwise with most room; encrypted if the old pool is. Undefined when one of them does not fit.
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

/** Returns the named pool; without a name the default pool, then those with most room. */
function candidates(here: readonly PoolView[], name: string): readonly PoolView[] {
  if (name !== '') return here.filter(pool => pool.name === name)
  return here.toSorted(
    (a, b) => Number(b.name === defaultPool) - Number(a.name === defaultPool) || b.roomMib - a.roomMib,
  )
}

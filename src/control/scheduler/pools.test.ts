import { expect, it } from 'vitest'
import { type PoolView, poolObstacle, type VolumeNeed } from './pools.ts'

const pools: PoolView[] = [
  { hostId: 'a', name: 'local', shared: false, encrypted: false, roomMib: 100 },
  { hostId: 'b', name: 'fast', shared: false, encrypted: false, roomMib: 10 },
]
const volume: VolumeNeed = { volumeId: 'v', poolName: '', sizeMib: 50, hostId: null, bound: false }

it.each<[string, Partial<VolumeNeed>, string, string | undefined]>([
  ['has a pool with enough space', {}, 'a', undefined],
  ['has only pools that are too small', {}, 'b', 'no room'],
  ['has no pool of that name', { poolName: 'fast' }, 'a', 'no pool'],
  ['is not the host of the volume', { hostId: 'a', bound: true, poolName: 'local' }, 'b', 'elsewhere'],
  ['already stores the volume', { hostId: 'a', bound: true, poolName: 'local', sizeMib: 900 }, 'a', undefined],
])('poolObstacle returns the reason, if any, why a host that %s cannot store a volume', (_, change, host, reason) =>
  expect(poolObstacle(pools, host, { ...volume, ...change })).toBe(reason),
)

import { join } from 'node:path'
import { type PoolConfig, poolPlaces } from '../base/pool-config.ts'
import { dirPool } from './dir-pool.ts'
import { lvmThinPool } from './lvm-thin-pool.ts'
import type { VolumePool } from './pool.ts'
import { rbdPool } from './rbd-pool.ts'
import { zfsPool } from './zfs-pool.ts'

/**
 * Opens the pools of a host, by name.
 * @param dataDir parent directory of pools whose place the operator did not configure
 */
export function openPools(configs: readonly PoolConfig[], dataDir: string): ReadonlyMap<string, VolumePool> {
  return new Map(
    configs.map(config => [config.name, openers[config.kind](config, join(dataDir, 'volumes', config.name))]),
  )
}

const openers = {
  dir: ({ name, place }, ownDir) => dirPool(name, place || ownDir),
  'dir-luks': ({ name, place }, ownDir) => dirPool(name, place || ownDir, true),
  'lvm-thin': ({ name, place }) => {
    const [, group = '', thinPool = ''] = poolPlaces['lvm-thin'].pattern.exec(place) ?? []
    return lvmThinPool({ name, group, thinPool })
  },
  zfs: ({ name, place }) => zfsPool({ name, dataset: place }),
  rbd: ({ name, place }, ownDir) => {
    const [, pool = '', client = null] = poolPlaces.rbd.pattern.exec(place) ?? []
    return rbdPool({ name, pool, client, scratchDir: ownDir })
  },
} as const satisfies Record<PoolConfig['kind'], (config: PoolConfig, ownDir: string) => VolumePool>

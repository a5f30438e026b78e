import type { Logger } from 'pino'
import type { VolumeObserved } from '../../contract/agent.ts'
import type { KeyedMutex } from '../../lib/keyed-mutex.ts'
import { StepError } from '../base/step-error.ts'
import type { Holders } from '../disk/holders.ts'
import type { VolumePool } from '../disk/pool.ts'
import type { MovesDeps } from './move/moves.ts'
import type { VolumeStore } from './store.ts'

/** Dependencies that volumes and their snapshots share. */
export interface StorageDeps {
  readonly store: VolumeStore
  readonly pools: ReadonlyMap<string, VolumePool>
  readonly holders: Holders
  /** Keyed mutex that serializes the operations on each volume, by volume id. */
  readonly mutex: KeyedMutex
  readonly log: Logger
}

export interface VolumesDeps extends StorageDeps, Pick<MovesDeps, 'migrationHost' | 'isGone'> {
  /** Makes the guest use the new size of a volume that has grown. @throws StepError `vm_not_running`, `vm_paused` */
  readonly grow: (vmId: string, volumeId: string, sizeMib: number) => Promise<void>
  /**
   * Returns a directory with the initial content of new volumes for VMs with this image; undefined: such volumes start
   * empty.
   */
  readonly contentOf: (image: string) => Promise<string | undefined>
  readonly onObserved: (observed: VolumeObserved) => void
}

/** Returns the pool with this name. @throws StepError `no_such_pool` */
export function poolOf(pools: ReadonlyMap<string, VolumePool>, name: string): VolumePool {
  const pool = pools.get(name)
  if (pool) return pool
  throw new StepError(
    'no_such_pool',
    `this host has no storage pool "${name}". The pools of this host: ${[...pools.keys()].join(', ')}`,
  )
}

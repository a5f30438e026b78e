import type { DiskSpec, VolumePut } from '../../contract/agent.ts'
import type { KeyedMutex } from '../../lib/keyed-mutex.ts'
import type { Holders } from '../disk/holders.ts'
import type { VolumePool } from '../disk/pool.ts'
import { StepError } from '../base/step-error.ts'

/** Contents of volumes that belong to snapshots of VMs. docs/decisions/0048-vm-snapshots-with-volumes.md */
export interface VolumeCopies {
  /**
   * Keeps the content of now under an id of the caller's; a copy that is there is made anew. Nothing writes meanwhile.
   * @throws StepError `volume_missing`, `volumes_attached` where other hosts reach the pool
   */
  copy(volumeId: string, copyId: string): Promise<void>
  /** Idempotent, also for a volume that has gone. */
  dropCopy(volumeId: string, copyId: string): Promise<void>
  /** As `dropCopy`, whichever volumes of this host have one. */
  dropCopies(copyId: string): Promise<void>
  /**
   * Puts the volume back to a copy, for a VM that may have it and is about to start.
   * @throws StepError as `open`, and `snapshot_missing`
   */
  rewind(disk: DiskSpec, vmId: string, copyId: string): Promise<void>
}

export interface CopiesDeps {
  readonly mutex: KeyedMutex
  readonly holders: Pick<Holders, 'remove'>
  /** Called in the volume's turn. @throws StepError as `Volumes.open` */
  readonly open: (disk: DiskSpec, vmId: string) => Promise<unknown>
  readonly find: (volumeId: string) => { readonly desired: VolumePut; readonly pool: VolumePool } | undefined
  /** Volumes that may have copies. */
  readonly all: () => readonly string[]
}

export function volumeCopies({ mutex, holders, open, find, all }: CopiesDeps): VolumeCopies {
  const known = (volumeId: string) => {
    const found = find(volumeId)
    if (found) return found
    throw new StepError('volume_missing', `this host has no volume ${volumeId}`)
  }
  const rewind = async (disk: DiskSpec, vmId: string, copyId: string) => {
    const { volumeId } = disk
    // All that has to hold for a VM that opens it; and nobody else has it open.
    await open({ ...disk, readOnly: false }, vmId)
    const { pool, desired } = known(volumeId)
    try {
      await pool.close(volumeId)
      await pool.restore(volumeId, copyId)
      await pool.grow(volumeId, desired.sizeMib)
    } finally {
      holders.remove(volumeId, vmId)
    }
  }
  const dropCopy = async (volumeId: string, copyId: string) => {
    if (find(volumeId)) await mutex.take(volumeId, () => removeCopy(volumeId, copyId))
  }
  /** It may have gone while its turn came. */
  const removeCopy = async (volumeId: string, copyId: string) => find(volumeId)?.pool.removeSnapshot(volumeId, copyId)
  return {
    async copy(volumeId, copyId) {
      const { pool } = known(volumeId)
      // Putting such a volume back is not one step for the cluster, and another host could open it half-way.
      if (pool.shared) throw new StepError('volumes_attached', `volume ${volumeId} is in a pool that other hosts reach`)
      await pool.removeSnapshot(volumeId, copyId)
      await pool.snapshot(volumeId, copyId)
    },
    dropCopy,
    async dropCopies(copyId) {
      for (const volumeId of all()) await dropCopy(volumeId, copyId)
    },
    rewind: (disk, vmId, copyId) => mutex.take(disk.volumeId, () => rewind(disk, vmId, copyId)),
  }
}

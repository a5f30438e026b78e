import type { DiskSpec, VolumePut } from '../../contract/agent.ts'
import type { KeyedMutex } from '../../lib/keyed-mutex.ts'
import type { Holders } from '../disk/holders.ts'
import type { VolumePool } from '../disk/pool.ts'
import { StepError } from '../base/step-error.ts'

/** Copies of volume contents that belong to snapshots of VMs. docs/decisions/0048-vm-snapshots-with-volumes.md */
export interface VolumeCopies {
  /**
   * Stores the current content of a volume as a copy. An existing copy with the same id is replaced. The caller ensures
   * that nothing writes to the volume during the call.
   * @throws StepError `volume_missing`, `volumes_attached` if the pool is shared with other hosts
   */
  copy(volumeId: string, copyId: string): Promise<void>
  /** Deletes one copy of a volume. Idempotent, even if the volume was removed. */
  dropCopy(volumeId: string, copyId: string): Promise<void>
  /** Deletes the copies with this id of all volumes on this host. */
  dropCopies(copyId: string): Promise<void>
  /**
   * Replaces the volume's content with that of a copy, for a VM that is about to start.
   * @throws StepError as `Volumes.open`, and `snapshot_missing`
   */
  rewind(disk: DiskSpec, vmId: string, copyId: string): Promise<void>
}

export interface CopiesDeps {
  readonly mutex: KeyedMutex
  readonly holders: Pick<Holders, 'remove'>
  /** Opens the volume; the caller holds the volume's mutex. @throws StepError as `Volumes.open` */
  readonly open: (disk: DiskSpec, vmId: string) => Promise<unknown>
  readonly find: (volumeId: string) => { readonly desired: VolumePut; readonly pool: VolumePool } | undefined
  /** Returns the ids of all volumes that may have copies. */
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
    // Opening the volume also checks that this VM may open it, and that no other VM has it open.
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
  /** The volume may have been removed while this call waited for its mutex. */
  const removeCopy = async (volumeId: string, copyId: string) => find(volumeId)?.pool.removeSnapshot(volumeId, copyId)
  return {
    async copy(volumeId, copyId) {
      const { pool } = known(volumeId)
      // In a pool shared with other hosts, a restore is not atomic: another host could open the volume before the
      // restore is complete.
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

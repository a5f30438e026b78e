/** Opens volumes for VMs in their pools, and closes them when the last VM detaches. */
import type { DiskSpec } from '../../contract/agent.ts'
import type { Holders } from '../disk/holders.ts'
import type { VolumePool } from '../disk/pool.ts'
import { StepError } from '../base/step-error.ts'
import { isRestoring, type VolumeFacts } from './decide.ts'

/** The file or device of an open volume, and the key with which a VM reads it. */
export interface Opened {
  readonly file: string
  /** Key of the LUKS container, in base64; undefined for an unencrypted volume. */
  readonly key?: string
}

export interface OpenerDeps {
  readonly pools: ReadonlyMap<string, VolumePool>
  readonly holders: Holders
  /** Returns this host's record of a volume; undefined if this host did not create the volume. */
  readonly find: (volumeId: string) => VolumeFacts | undefined
  readonly keyOf: (volumeId: string) => string | undefined
  /** Checks that no newer attachment of the volume is recorded. @throws StepError `stale_volume_generation` */
  readonly checkFence: (disk: DiskSpec) => Promise<unknown>
  /**
   * Records the attachment, so that older attachments of the volume are refused from now on.
   * @throws StepError `stale_volume_generation`
   */
  readonly fence: (disk: DiskSpec) => Promise<void>
}

export interface Opener {
  /** Opens the volume for the VM. @throws StepError as `Volumes.open` */
  open(disk: DiskSpec, vmId: string): Promise<Opened>
  /** Closes a volume that the VM has open. */
  close(volumeId: string, vmId: string): Promise<void>
  adopt(disk: DiskSpec, vmId: string): void
}

/** Creates functions that open and close volumes. Callers hold the volume's mutex. */
export function volumeOpener({ pools, holders, find, keyOf, checkFence, fence }: OpenerDeps): Opener {
  /** Names of the pools of open volumes. This host has no other record of a volume that another host created. */
  const poolsOfHeld = new Map<string, string>()
  const modeOf = ({ readOnly }: DiskSpec) => (readOnly ? 'read' : 'write')

  const poolFor = ({ volumeId, pool: name }: DiskSpec, vmId: string): VolumePool => {
    const known = find(volumeId)
    const pool = pools.get(known?.desired.pool ?? name)
    // In a shared pool, other hosts create and restore volumes, too, so this host's records may be outdated. They are
    // not needed, because the control plane only requests a VM once the VM's volumes are ready.
    if (pool?.shared) return pool
    if (!known || known.desired.want === 'absent')
      throw new StepError('volume_missing', `this host has no volume ${volumeId}`)
    if (!pool) throw new StepError('no_such_pool', `this host has no storage pool "${known.desired.pool}"`)
    // Until the control plane confirms a volume that arrived with a VM, only this VM may open it.
    const isBrought = known.done.received !== undefined && holders.of(volumeId).includes(vmId)
    if (!(known.done.created || isBrought) || isRestoring(known) || known.desired.outgoing?.final)
      throw new StepError('volume_not_ready', `volume ${volumeId} is being created, restored or moved`)
    return pool
  }

  return {
    async open(disk, vmId) {
      const { volumeId, generation } = disk
      await checkFence(disk)
      const pool = poolFor(disk, vmId)
      const key = keyOf(volumeId)
      if (pool.encrypted && !key)
        throw new StepError('volume_locked', `the key of volume ${volumeId} has not reached this host yet`)
      // A crashed agent may have left the device mapped: read-only, or for a Ceph client that was blocklisted since.
      if (pool.shared && holders.of(volumeId).length === 0) await pool.close(volumeId)
      holders.add(volumeId, vmId, modeOf(disk))
      poolsOfHeld.set(volumeId, pool.name)
      try {
        await fence(disk)
        const file = await pool.open(volumeId, generation, modeOf(disk))
        return pool.encrypted && key ? { file, key } : { file }
      } catch (error) {
        holders.remove(volumeId, vmId)
        throw error
      }
    },
    async close(volumeId, vmId) {
      const isLast = holders.of(volumeId).length === 1
      const name = find(volumeId)?.desired.pool ?? poolsOfHeld.get(volumeId)
      if (isLast && name !== undefined) await pools.get(name)?.close(volumeId)
      holders.remove(volumeId, vmId)
      if (isLast) poolsOfHeld.delete(volumeId)
    },
    adopt(disk, vmId) {
      holders.note(disk.volumeId, vmId, modeOf(disk))
      poolsOfHeld.set(disk.volumeId, disk.pool)
    },
  }
}

/** Volumes as VMs have them: opened in the pool that they are in, and closed there when the last VM lets go. */
import type { DiskSpec } from '../../contract/agent.ts'
import type { Holders } from '../disk/holders.ts'
import type { VolumePool } from '../disk/pool.ts'
import { StepError } from '../base/step-error.ts'
import { isRestoring, type VolumeFacts } from './decide.ts'

/** A volume as a VM may have it. */
export interface Opened {
  readonly file: string
  /** It is a LUKS container that this opens, base64. */
  readonly key?: string
}

export interface OpenerDeps {
  readonly pools: ReadonlyMap<string, VolumePool>
  readonly holders: Holders
  /** What this host knows of a volume that it has made itself. */
  readonly find: (volumeId: string) => VolumeFacts | undefined
  readonly keyOf: (volumeId: string) => string | undefined
  /** @throws StepError `stale_volume_generation` */
  readonly checkFence: (disk: DiskSpec) => Promise<unknown>
  /** From here on older attachments are refused. @throws StepError `stale_volume_generation` */
  readonly fence: (disk: DiskSpec) => Promise<void>
}

export interface Opener {
  /** @throws StepError as `Volumes.open` does */
  open(disk: DiskSpec, vmId: string): Promise<Opened>
  /** Of what the VM has. */
  close(volumeId: string, vmId: string): Promise<void>
  adopt(disk: DiskSpec, vmId: string): void
}

/** Whoever calls takes the volume's turn. */
export function volumeOpener({ pools, holders, find, keyOf, checkFence, fence }: OpenerDeps): Opener {
  /** Of what VMs have: this host knows nothing else of a volume that another one made. */
  const poolsOfHeld = new Map<string, string>()
  const modeOf = ({ readOnly }: DiskSpec) => (readOnly ? 'read' : 'write')

  const poolFor = ({ volumeId, pool: name }: DiskSpec, vmId: string): VolumePool => {
    const known = find(volumeId)
    const pool = pools.get(known?.desired.pool ?? name)
    // Other hosts make and restore it, too: notes of this one may be of long ago. Control wishes for a VM with it only
    // once it is whole.
    if (pool?.shared) return pool
    if (!known || known.desired.want === 'absent')
      throw new StepError('volume_missing', `this host has no volume ${volumeId}`)
    if (!pool) throw new StepError('no_such_pool', `this host has no storage pool "${known.desired.pool}"`)
    // One that a VM has brought is that VM's, and nobody else's before control says that it counts.
    const isBrought = known.done.received !== undefined && holders.of(volumeId).includes(vmId)
    if (!(known.done.created || isBrought) || isRestoring(known) || known.desired.outgoing?.final)
      throw new StepError('volume_not_ready', `volume ${volumeId} is being made, restored or moved`)
    return pool
  }

  return {
    async open(disk, vmId) {
      const { volumeId, generation } = disk
      await checkFence(disk)
      const pool = poolFor(disk, vmId)
      const key = keyOf(volumeId)
      if (pool.encrypted && !key)
        throw new StepError('volume_locked', `the key of volume ${volumeId} is not known here yet`)
      // What an agent that ended at once opened and did not note may be to read only, or of a client that was shut out.
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

/**
 * Transfers volumes together with a running VM that uses them. The hypervisor copies the current content; before that,
 * the agents send snapshots and LUKS headers over their own connection.
 */
import type { DiskSpec } from '../../../contract/agent.ts'
import type { Holders } from '../../disk/holders.ts'
import { luksHeaderBytes } from '../../disk/luks.ts'
import type { VolumePool } from '../../disk/pool.ts'
import type { ArrivingVolumes, LeavingVolumes, OpenDisk } from '../../hypervisor/driver.ts'
import type { Wire } from '../../hypervisor/transfer/wire.ts'
import { StepError } from '../../base/step-error.ts'
import { type KeepDeps, keepWanted, type VolumeReceiver, volumeReceiver } from './receive.ts'
import { createSender } from './send.ts'

export interface WithVmDeps extends KeepDeps {
  readonly poolOf: (volumeId: string) => VolumePool
  readonly holders: Pick<Holders, 'add' | 'remove'>
  /**
   * Checks that the volume may arrive with this VM. The returned signal is aborted when the transfer is canceled.
   * @throws StepError `stale_volume_generation`, `volume_missing`
   */
  readonly checkArrival: (disk: DiskSpec) => Promise<AbortSignal>
  readonly keyOf: (volumeId: string) => string | undefined
  /** Records that the volume was received completely. Resolves once the record and the volume's content are durable. */
  readonly keep: (volumeId: string) => Promise<void>
}

export interface VolumesWithVms {
  leaving(volumes: readonly { readonly volumeId: string; readonly snapshots: readonly string[] }[]): LeavingVolumes
  /**
   * @param onOpen awaited before the first volume is opened, so that the caller can record the volumes and close them
   * after a failure
   */
  arriving(
    disks: readonly DiskSpec[],
    vmId: string,
    onOpen: (disks: readonly DiskSpec[]) => Promise<void>,
  ): ArrivingVolumes
}

export const volumesWithVms = (deps: WithVmDeps): VolumesWithVms => ({
  leaving: volumes => ({
    async send(wire) {
      for (const { volumeId, snapshots } of volumes) {
        const pool = deps.poolOf(volumeId)
        const sender = createSender(wire, { volumeId, pool, snapshots }, () => undefined)
        await sender.sendSnapshots()
        // Send the LUKS header of the volume, so that the same key opens it on the target.
        await sender.sendBegin(pool.encrypted ? await luksHeaderBytes(await pool.open(volumeId, 0)) : 0)
      }
    },
  }),
  arriving: (disks, vmId, onOpen) => ({
    count: disks.length,
    async take(wire) {
      const receivers = new Map<string, VolumeReceiver>()
      for (const disk of disks) {
        const signal = await deps.checkArrival(disk)
        const [{ volumeId }, pool] = [disk, deps.poolOf(disk.volumeId)]
        receivers.set(volumeId, volumeReceiver(pool, volumeId, signal, keepWanted(deps, pool, volumeId, signal)))
      }
      try {
        await takeAll(wire, receivers)
      } finally {
        for (const receiver of receivers.values()) await receiver.close()
      }
      const opened: OpenDisk[] = []
      await onOpen(disks)
      for (const disk of disks) opened.push(await open(deps, disk, vmId))
      return opened
    },
    async keep() {
      for (const { volumeId } of disks) await deps.keep(volumeId)
    },
  }),
})

async function open({ poolOf, holders, keyOf }: WithVmDeps, disk: DiskSpec, vmId: string): Promise<OpenDisk> {
  const { volumeId, generation, readOnly } = disk
  const pool = poolOf(volumeId)
  const key = keyOf(volumeId)
  if (pool.encrypted && key === undefined)
    throw new StepError('volume_locked', `the key of volume ${volumeId} has not reached this host yet`)
  holders.add(volumeId, vmId, readOnly ? 'read' : 'write')
  try {
    const file = await pool.open(volumeId, generation)
    return { disk, file, ...(pool.encrypted && key !== undefined ? { key } : {}) }
  } catch (error) {
    holders.remove(volumeId, vmId)
    throw error
  }
}

/** Receives all volumes until the source sends `complete`. */
async function takeAll(wire: Wire, receivers: ReadonlyMap<string, VolumeReceiver>): Promise<void> {
  let current: VolumeReceiver | undefined
  for (;;) {
    const frame = await wire.next()
    if (frame?.kind === 'message' && frame.message.say === 'complete') return
    if (frame?.kind === 'message' && frame.message.say === 'file') {
      const next = receivers.get(frame.message.name)
      if (next !== current) await current?.close()
      current = next
      await current?.take(frame.message.size)
    } else if (frame?.kind === 'message' && frame.message.say === 'whole' && current) {
      await current.whole(frame.message.digest, frame.message.snapshotId)
      await wire.say({ say: 'loaded' })
    } else if (frame?.kind === 'data' && current) await current.data(frame.offset, frame.data)
    else throw new Error('the source host ended the transfer of the volumes before all data was sent')
    if (!current) throw new Error('the source host sent a volume that this host does not expect')
  }
}

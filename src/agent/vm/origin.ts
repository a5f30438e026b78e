import type { DiskSpec, SnapshotDisk, VmPut, VmSpec } from '../../contract/agent.ts'
import type { SnapshotSource } from '../hypervisor/driver.ts'
import type { ActorDeps } from './deps.ts'
import type { VmRecord } from './record.ts'

/** One wish to go on from a snapshot. */
export const originKey = ({ from, restarts }: Pick<VmSpec, 'from' | 'restarts'>): string =>
  `${from?.snapshotId ?? ''}/${restarts}`

/**
 * What the next start goes on from; undefined: it boots. A guest that has volumes mounted knows what is on them, so it goes
 * on only with volumes that are as they were: put back to that where the same VM is restored, untouched since where it slept.
 * @throws StepError `snapshot_missing`, `snapshot_damaged`
 */
export async function originOf(
  { snapshot, vmLog }: Pick<ActorDeps, 'snapshot' | 'vmLog'>,
  { spec }: Pick<VmPut, 'spec'>,
  { origin }: Pick<VmRecord, 'origin'>,
): Promise<SnapshotSource | undefined> {
  const { from, disks } = spec
  if (!from) return undefined
  // What its guest has written since is not to be lost. The snapshot may have gone by now.
  if (origin === originKey(spec)) return undefined
  const source = { ...(await snapshot(from.snapshotId)), renew: from.renew, alone: from.alone ?? false }
  const had = source.made.disks ?? []
  if (had.length === 0) return source
  const obstacle = obstacleOf(had, disks, from.renew ? (source.made.stays ? 'asleep' : 'gone on') : 'restored')
  if (obstacle === undefined) return source
  vmLog.say(`boots instead of going on from its snapshot: ${obstacle}`)
  return undefined
}

/**
 * Why the guest of a snapshot cannot have the volumes of now.
 * @param since `asleep`: nothing wrote after the snapshot; `restored`: they are put back to it first
 */
export function obstacleOf(
  had: readonly SnapshotDisk[],
  disks: readonly DiskSpec[],
  since: 'asleep' | 'restored' | 'gone on',
): string | undefined {
  if (since === 'gone on') return 'the VM that it was taken of has gone on with its volumes'
  const now = new Map(disks.map(disk => [disk.volumeId, disk]))
  if (had.length !== disks.length) return 'it has other volumes now'
  for (const then of had) {
    const disk = now.get(then.volumeId)
    if (disk?.mountPoint !== then.mountPoint || disk.readOnly !== then.readOnly) return 'it has other volumes now'
    // Each writer, and each restore of the volume, raises its generation by one; this start is one of them.
    const untouched = disk.generation === then.generation + (then.readOnly ? 0 : 1)
    if (then.readOnly || since === 'asleep' ? !untouched : !then.copied)
      return `volume ${then.volumeId} was written to meanwhile`
  }
  return undefined
}

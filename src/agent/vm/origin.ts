import type { DiskSpec, SnapshotDisk, VmPut, VmSpec } from '../../contract/agent.ts'
import type { SnapshotSource } from '../hypervisor/driver.ts'
import type { ActorDeps } from './deps.ts'
import type { VmRecord } from './record.ts'

/** Returns a key that identifies one request to restore a snapshot. */
export const originKey = ({ from, restarts }: Pick<VmSpec, 'from' | 'restarts'>): string =>
  `${from?.snapshotId ?? ''}/${restarts}`

/**
 * Returns the snapshot that the next start restores; undefined if the VM boots. A guest with mounted volumes has cached
 * their contents, so it can only be restored with volumes in the same state: a restored VM's volumes are reset to the
 * snapshot, a sleeping VM's volumes must be unchanged, and a fork gets clones.
 * @throws StepError `snapshot_missing`, `snapshot_damaged`
 */
export async function originOf(
  { snapshot, vmLog }: Pick<ActorDeps, 'snapshot' | 'vmLog'>,
  { spec }: Pick<VmPut, 'spec'>,
  { origin }: Pick<VmRecord, 'origin'>,
): Promise<SnapshotSource | undefined> {
  const { from, disks } = spec
  if (!from) return undefined
  // The VM was already restored from this snapshot. Doing so again would lose the guest's later writes, and the
  // snapshot may be deleted.
  if (origin === originKey(spec)) return undefined
  const source = { ...(await snapshot(from.snapshotId)), renew: from.renew, alone: from.alone ?? false }
  const had = source.made.disks ?? []
  if (had.length === 0) return source
  const since = from.renew ? (source.made.stays ? 'asleep' : 'forked') : 'restored'
  const obstacle = obstacleOf(had, disks, since, from.clones)
  if (obstacle === undefined) return source
  vmLog.say(`the VM boots instead of restoring its snapshot: ${obstacle}`)
  return undefined
}

type Clones = NonNullable<NonNullable<VmSpec['from']>['clones']>

/** Returns the id of the VM's volume that replaces this volume of the snapshotted guest. */
export const inPlaceOf = (volumeId: string, clones: Clones = []): string =>
  clones.find(clone => clone.of === volumeId)?.volumeId ?? volumeId

/** Returns the id of the volume of the snapshotted guest that this volume replaces. */
export const placeOf = (volumeId: string, clones: Clones = []): string =>
  clones.find(clone => clone.volumeId === volumeId)?.of ?? volumeId

/**
 * Returns why the snapshotted guest could not use the VM's current volumes; undefined if it could.
 * @param since `asleep`: the volumes must be unchanged since the snapshot; `restored`: they are reset to the snapshot
 * first; `forked`: the original VM kept running, and this VM has clones of its volumes
 */
export function obstacleOf(
  had: readonly SnapshotDisk[],
  disks: readonly DiskSpec[],
  since: 'asleep' | 'restored' | 'forked',
  clones: Clones = [],
): string | undefined {
  const now = new Map(disks.map(disk => [disk.volumeId, disk]))
  if (had.length !== disks.length) return 'its volumes have changed'
  for (const then of had) {
    const volumeId = inPlaceOf(then.volumeId, clones)
    const disk = now.get(volumeId)
    if (disk?.mountPoint !== then.mountPoint || disk.readOnly !== then.readOnly) return 'its volumes have changed'
    if (!isAsThen(then, disk, since)) return `volume ${volumeId} was written to since the snapshot`
  }
  return undefined
}

/**
 * True if the volume is unchanged since the snapshot. Compares generations: each writable attachment and each restore
 * raises a volume's generation by one. The current start is one such attachment.
 */
function isAsThen(then: SnapshotDisk, now: DiskSpec, since: 'asleep' | 'restored' | 'forked'): boolean {
  if (then.readOnly) return now.generation === then.generation
  if (since === 'asleep') return now.generation === then.generation + 1
  if (since === 'restored') return then.copied
  // A clone has the contents of the snapshot's copy if this start is the first writable attachment of the clone.
  return then.copied && now.volumeId !== then.volumeId && now.generation === 1
}

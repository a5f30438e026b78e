import type { DiskSpec, SnapshotDisk, VmPut, VmSpec } from '../../contract/agent.ts'
import type { SnapshotSource } from '../hypervisor/driver.ts'
import type { ActorDeps } from './deps.ts'
import type { VmRecord } from './record.ts'

/** One wish to go on from a snapshot. */
export const originKey = ({ from, restarts }: Pick<VmSpec, 'from' | 'restarts'>): string =>
  `${from?.snapshotId ?? ''}/${restarts}`

/**
 * What the next start goes on from; undefined: it boots. A guest that has volumes mounted knows what is on them, so it goes
 * on only with volumes that are as they were: put back to that where the same VM is restored, untouched since where it slept,
 * clones of that where it is a fork.
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
  const since = from.renew ? (source.made.stays ? 'asleep' : 'forked') : 'restored'
  const obstacle = obstacleOf(had, disks, since, from.clones)
  if (obstacle === undefined) return source
  vmLog.say(`boots instead of going on from its snapshot: ${obstacle}`)
  return undefined
}

type Clones = NonNullable<NonNullable<VmSpec['from']>['clones']>

/** The volume that a VM has in the place of the one that the snapshot's guest knows. */
export const inPlaceOf = (volumeId: string, clones: Clones = []): string =>
  clones.find(clone => clone.of === volumeId)?.volumeId ?? volumeId

/** The volume that the snapshot's guest knows in the place of this one. */
export const placeOf = (volumeId: string, clones: Clones = []): string =>
  clones.find(clone => clone.volumeId === volumeId)?.of ?? volumeId

/**
 * Why the guest of a snapshot cannot have the volumes of now.
 * @param since `asleep`: nothing wrote after the snapshot; `restored`: they are put back to it first; `forked`: the VM that it
 * was taken of went on, and this one has clones
 */
export function obstacleOf(
  had: readonly SnapshotDisk[],
  disks: readonly DiskSpec[],
  since: 'asleep' | 'restored' | 'forked',
  clones: Clones = [],
): string | undefined {
  const now = new Map(disks.map(disk => [disk.volumeId, disk]))
  if (had.length !== disks.length) return 'it has other volumes now'
  for (const then of had) {
    const volumeId = inPlaceOf(then.volumeId, clones)
    const disk = now.get(volumeId)
    if (disk?.mountPoint !== then.mountPoint || disk.readOnly !== then.readOnly) return 'it has other volumes now'
    if (!isAsThen(then, disk, since)) return `volume ${volumeId} was written to meanwhile`
  }
  return undefined
}

/** Each writer, and each restore of the volume, raises its generation by one; this start is one of them. */
function isAsThen(then: SnapshotDisk, now: DiskSpec, since: 'asleep' | 'restored' | 'forked'): boolean {
  if (then.readOnly) return now.generation === then.generation
  if (since === 'asleep') return now.generation === then.generation + 1
  if (since === 'restored') return then.copied
  // A clone begins with what was copied, and this start is its first writer.
  return then.copied && now.volumeId !== then.volumeId && now.generation === 1
}

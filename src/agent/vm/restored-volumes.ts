import type { SnapshotSource } from '../hypervisor/driver.ts'
import { originKey, placeOf } from './origin.ts'
import type { StepsDeps } from './steps.ts'

/**
 * Opens the volumes for a VM that is restored from a snapshot. Unless the VM is a fork, the volumes are first reset to
 * the snapshot.
 */
export async function openRestored(
  { adjuster, recordFile, volumes, desired }: Pick<StepsDeps, 'adjuster' | 'recordFile' | 'volumes' | 'desired'>,
  source: SnapshotSource,
): Promise<SnapshotSource> {
  if ((source.made.disks ?? []).length === 0) return source
  const { vmId, spec } = desired()
  const { from, disks } = spec
  for (const disk of disks) if (from && !from.renew && !disk.readOnly) await volumes.rewind(disk, vmId, from.snapshotId)
  return {
    ...source,
    disks: (await adjuster.open(disks)).map(one => ({ ...one, of: placeOf(one.disk.volumeId, from?.clones) })),
    // From this point on, the guest may write to the volumes. Another reset would lose its writes.
    beforeRun: () => recordFile.save({ origin: originKey(spec) }),
  }
}

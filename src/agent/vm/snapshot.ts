import type { DiskSpec, SnapshotDisk, SnapshotPut } from '../../contract/agent.ts'
import type { Driver, RunningVm, SnapshotMade } from '../hypervisor/driver.ts'
import type { Volumes } from '../volume/volumes.ts'
import { StepError } from '../base/step-error.ts'
import type { VmRecordFile } from './record-file.ts'

export interface SnapshotVmDeps {
  readonly driver: Pick<Driver, 'name' | 'keepsVolumes'>
  readonly volumes: Pick<Volumes, 'copy'>
  readonly recordFile: VmRecordFile
  /** Called when the guest is paused and will not run again, as in a snapshot of a VM that goes to sleep. */
  readonly onQuiesced: () => void
}

/**
 * Takes a snapshot of a running or paused VM and a consistent copy of its volumes. With `afterwards: 'stay'`, a VM with
 * volumes stays paused, so its volumes need no copy.
 * @throws StepError `unsupported_by_hypervisor`, `volumes_attached`
 */
export async function snapshotVm(
  deps: SnapshotVmDeps,
  runningVm: RunningVm,
  { snapshotId, afterwards = 'go-on' }: Pick<SnapshotPut, 'snapshotId' | 'afterwards'>,
  dir: string,
): Promise<SnapshotMade> {
  const { driver, recordFile } = deps
  if (!runningVm.snapshot) throw new StepError('unsupported_by_hypervisor', `${driver.name} does not support snapshots`)
  const { disks = [] } = recordFile.record
  if (disks.length === 0) return runningVm.snapshot(dir)
  if (!driver.keepsVolumes)
    throw new StepError(
      'volumes_attached',
      `${driver.name} cannot snapshot a VM with volumes: detach the volumes, or snapshot them instead`,
    )
  return afterwards === 'stay'
    ? snapshotPaused(deps, runningVm, snapshotId, dir, disks)
    : snapshotWithCopies(deps, runningVm, snapshotId, dir, disks)
}

async function snapshotWithCopies(
  { volumes, recordFile }: SnapshotVmDeps,
  runningVm: RunningVm,
  snapshotId: string,
  dir: string,
  disks: readonly DiskSpec[],
): Promise<SnapshotMade> {
  const { paused } = recordFile.record
  const startedMs = performance.now()
  if (!paused) await runningVm.pause()
  try {
    // Memory is saved before the volumes are copied: a restored guest repeats writes that the VMM completes after the
    // memory snapshot. In the opposite order, a write that completes between the two would be lost.
    const made = await runningVm.snapshot?.(dir)
    if (!made) throw new Error('BUG: no snapshot was made')
    // Read-only volumes need no copy, because the guest cannot change them.
    for (const disk of disks) if (!disk.readOnly) await volumes.copy(disk.volumeId, snapshotId)
    const pauseMs = paused ? 0 : Math.round(performance.now() - startedMs)
    return { ...made, pauseMs, disks: disks.map(disk => snapshotDisk(disk, !disk.readOnly)) }
  } finally {
    if (!paused) await runningVm.resume()
  }
}

async function snapshotPaused(
  { recordFile, onQuiesced }: SnapshotVmDeps,
  runningVm: RunningVm,
  snapshotId: string,
  dir: string,
  disks: readonly DiskSpec[],
): Promise<SnapshotMade> {
  await runningVm.pause()
  // The record is stored before the snapshot is taken, so that a restarted agent does not resume the VM.
  await recordFile.save({ paused: true, keptFor: snapshotId })
  onQuiesced()
  const made = await runningVm.snapshot?.(dir)
  if (!made) throw new Error('BUG: no snapshot was made')
  return { ...made, stays: true, disks: disks.map(disk => snapshotDisk(disk, false)) }
}

const snapshotDisk = ({ volumeId, generation, mountPoint, readOnly }: DiskSpec, copied: boolean): SnapshotDisk => ({
  volumeId,
  generation,
  mountPoint,
  readOnly,
  copied,
})

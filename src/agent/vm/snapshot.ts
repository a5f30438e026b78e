import type { DiskSpec, SnapshotDisk, SnapshotPut } from '../../contract/agent.ts'
import type { Driver, RunningVm, SnapshotMade } from '../hypervisor/driver.ts'
import type { Volumes } from '../volume/volumes.ts'
import { StepError } from '../base/step-error.ts'
import type { VmRecordFile } from './record-file.ts'

export interface KeepDeps {
  readonly driver: Pick<Driver, 'name' | 'keepsVolumes'>
  readonly volumes: Pick<Volumes, 'copy'>
  readonly recordFile: VmRecordFile
  /** The guest stands still, and stays so. */
  readonly onQuiesced: () => void
}

/**
 * A snapshot of a running or paused VM, with its volumes at the same instant. With `afterwards: 'stay'` a VM with volumes is not
 * let run any more: then they need no copy.
 * @throws StepError `unsupported_by_hypervisor`, `volumes_attached`
 */
export async function keepVm(
  deps: KeepDeps,
  runningVm: RunningVm,
  { snapshotId, afterwards = 'go-on' }: Pick<SnapshotPut, 'snapshotId' | 'afterwards'>,
  dir: string,
): Promise<SnapshotMade> {
  const { driver, recordFile } = deps
  if (!runningVm.snapshot) throw new StepError('unsupported_by_hypervisor', `${driver.name} cannot do that`)
  const { disks = [] } = recordFile.record
  if (disks.length === 0) return runningVm.snapshot(dir)
  if (!driver.keepsVolumes)
    throw new StepError('volumes_attached', `${driver.name} keeps no VM with volumes: detach them, or snapshot them`)
  return afterwards === 'stay'
    ? keepStill(deps, runningVm, snapshotId, dir, disks)
    : keepWithCopies(deps, runningVm, snapshotId, dir, disks)
}

async function keepWithCopies(
  { volumes, recordFile }: KeepDeps,
  runningVm: RunningVm,
  snapshotId: string,
  dir: string,
  disks: readonly DiskSpec[],
): Promise<SnapshotMade> {
  const { paused } = recordFile.record
  const startedMs = performance.now()
  if (!paused) await runningVm.pause()
  try {
    // Memory first: a write that a VMM does after that is done once more by whoever goes on from there; one that it did between a
    // copy and the memory would be missing.
    const made = await runningVm.snapshot?.(dir)
    if (!made) throw new Error('BUG: no snapshot was made')
    // What only reads has nothing of its own to go back to.
    for (const disk of disks) if (!disk.readOnly) await volumes.copy(disk.volumeId, snapshotId)
    const pauseMs = paused ? 0 : Math.round(performance.now() - startedMs)
    return { ...made, pauseMs, disks: disks.map(disk => keptDisk(disk, !disk.readOnly)) }
  } finally {
    if (!paused) await runningVm.resume()
  }
}

async function keepStill(
  { recordFile, onQuiesced }: KeepDeps,
  runningVm: RunningVm,
  snapshotId: string,
  dir: string,
  disks: readonly DiskSpec[],
): Promise<SnapshotMade> {
  await runningVm.pause()
  // Stored before the snapshot is: an agent that starts in between must not let it run on.
  await recordFile.save({ paused: true, keptFor: snapshotId })
  onQuiesced()
  const made = await runningVm.snapshot?.(dir)
  if (!made) throw new Error('BUG: no snapshot was made')
  return { ...made, stays: true, disks: disks.map(disk => keptDisk(disk, false)) }
}

const keptDisk = ({ volumeId, generation, mountPoint, readOnly }: DiskSpec, copied: boolean): SnapshotDisk => ({
  volumeId,
  generation,
  mountPoint,
  readOnly,
  copied,
})

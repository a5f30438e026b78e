import type { DiskSpec, SnapshotDisk, SnapshotPut } from '../../contract/agent.ts'
import type { Driver, Machine, SnapshotMade } from '../hypervisor/driver.ts'
import type { Volumes } from '../volume/volumes.ts'
import { StepError } from './errors.ts'
import type { Notebook } from './notebook.ts'

export interface KeepDeps {
  readonly driver: Pick<Driver, 'name' | 'keepsVolumes'>
  readonly volumes: Pick<Volumes, 'copy'>
  readonly notebook: Notebook
  /** The guest stands still, and stays so. */
  readonly onStill: () => void
}

/**
 * A snapshot of a running or paused VM, with its volumes at the same instant. With `afterwards: 'stay'` a VM with volumes is not
 * let run any more: then they need no copy.
 * @throws StepError `unsupported_by_hypervisor`, `volumes_attached`
 */
export async function keepVm(
  deps: KeepDeps,
  machine: Machine,
  { snapshotId, afterwards = 'go-on' }: Pick<SnapshotPut, 'snapshotId' | 'afterwards'>,
  dir: string,
): Promise<SnapshotMade> {
  const { driver, notebook } = deps
  if (!machine.snapshot) throw new StepError('unsupported_by_hypervisor', `${driver.name} cannot do that`)
  const { disks = [] } = notebook.record
  if (disks.length === 0) return machine.snapshot(dir)
  if (!driver.keepsVolumes)
    throw new StepError('volumes_attached', `${driver.name} keeps no VM with volumes: detach them, or snapshot them`)
  return afterwards === 'stay'
    ? keepStill(deps, machine, snapshotId, dir, disks)
    : keepWithCopies(deps, machine, snapshotId, dir, disks)
}

async function keepWithCopies(
  { volumes, notebook }: KeepDeps,
  machine: Machine,
  snapshotId: string,
  dir: string,
  disks: readonly DiskSpec[],
): Promise<SnapshotMade> {
  const { paused } = notebook.record
  const startedMs = performance.now()
  if (!paused) await machine.pause()
  try {
    // Memory first: a write that a VMM does after that is done once more by whoever goes on from there; one that it did between a
    // copy and the memory would be missing.
    const made = await machine.snapshot?.(dir)
    if (!made) throw new Error('BUG: no snapshot was made')
    // What only reads has nothing of its own to go back to.
    for (const disk of disks) if (!disk.readOnly) await volumes.copy(disk.volumeId, snapshotId)
    const pauseMs = paused ? 0 : Math.round(performance.now() - startedMs)
    return { ...made, pauseMs, disks: disks.map(disk => keptDisk(disk, !disk.readOnly)) }
  } finally {
    if (!paused) await machine.resume()
  }
}

async function keepStill(
  { notebook, onStill }: KeepDeps,
  machine: Machine,
  snapshotId: string,
  dir: string,
  disks: readonly DiskSpec[],
): Promise<SnapshotMade> {
  await machine.pause()
  // Stored before the snapshot is: an agent that starts in between must not let it run on.
  await notebook.save({ paused: true, keptFor: snapshotId })
  onStill()
  const made = await machine.snapshot?.(dir)
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

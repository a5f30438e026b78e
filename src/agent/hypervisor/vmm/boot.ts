import { join } from 'node:path'
import { makeScratch } from '../../disk/scratch.ts'
import { StepError } from '../../base/step-error.ts'
import type { RunningVm, SnapshotSource } from '../driver.ts'
import type { PrepareContext } from '../../base/prepare-context.ts'
import { identity, identityMs } from '../identity.ts'
import { parseWorkload } from '../running-vm.ts'
import { readNotes } from '../prepare.ts'
import { configFile, copyWritable, scratchFile } from '../snapshot-files.ts'
import { cellFiles, driveFile, place, type VmmCell } from './cell.ts'
import type { VmmDriverDeps } from './driver.ts'
import { launch, type LaunchPlan } from './launch.ts'
import type { Platform } from './platform.ts'

/** Boots a VM from its image. Resolves once the guest's init has answered. */
export async function bootVm(
  platform: Platform,
  deps: Pick<VmmDriverDeps, 'kernel' | 'cacheDir'>,
  plan: LaunchPlan,
  context: PrepareContext,
): Promise<RunningVm> {
  const { dir, spec, drives = [] } = plan.home
  await context.time('disk', () => makeScratch(deps.cacheDir, join(dir, scratchFile), spec.diskMib))
  const { kernel, initrd } = await deps.kernel()
  return launch(platform, plan, context, async launched => {
    const { cell, guest, unlessEnded, runningVm } = launched
    await place(cell, kernel, cellFiles.kernel, 'read')
    await place(cell, initrd, cellFiles.initrd, 'read')
    const { tap, mac } = await placeDisks(platform, cell, plan)
    // The VMM becomes the owner of read-only drives too, so that no other user can read them.
    for (const [index, { file }] of drives.entries()) await place(cell, file, driveFile(index), 'write')
    const status = await context.time('boot', async () => {
      const { vcpus, memoryMib } = spec
      await launched.tap.make()
      await unlessEnded(platform.bootGuest(launched, { vcpus, memoryMib, tap, mac, drives }))
      // Move the tap to the host's network namespace while the guest's kernel boots.
      await launched.tap.bring()
      return unlessEnded(guest.ready)
    })
    return runningVm(parseWorkload(status))
  })
}

/** Makes the VM's disks available in the VMM's jail directory, and returns the VM's network settings. */
export async function placeDisks(
  { title }: Pick<Platform, 'title'>,
  cell: VmmCell,
  { home, prepared }: Pick<LaunchPlan, 'home' | 'prepared'>,
): Promise<{ tap: string; mac: string }> {
  const { base, tap, mac } = readNotes(prepared)
  if (tap === null) throw new StepError('unsupported_by_hypervisor', `${title} needs taps: run the agent as root`)
  await place(cell, base, cellFiles.base, 'read')
  await place(cell, join(home.dir, scratchFile), cellFiles.scratch, 'write')
  await place(cell, join(home.dir, configFile), cellFiles.config, 'write')
  return { tap, mac }
}

/**
 * Restores a VM from a snapshot. The link of a clone is up before the clone has its own address; until then the host's
 * firewall drops the clone's packets.
 */
export async function restoreVm(
  platform: Platform,
  plan: LaunchPlan,
  from: SnapshotSource,
  context: PrepareContext,
): Promise<RunningVm> {
  const { home, prepared } = plan
  const notes = readNotes(prepared)
  await context.time('disk', () => copyWritable(join(from.dir, scratchFile), join(home.dir, scratchFile)))
  const logSeq = Number(from.made.notes.logSeq)
  return launch(platform, { ...plan, fromSeq: logSeq }, context, async launched => {
    const { cell, api, guest, unlessEnded, runningVm } = launched
    const { tap } = await placeDisks(platform, cell, plan)
    await context.time('load', async () => {
      await launched.tap.make()
      await unlessEnded(platform.loadGuest(launched, { dir: from.dir, tap, volumes: from.disks ?? [] }))
    })
    await from.beforeRun?.()
    const moved = from.renew || from.made.notes.guest !== notes.guest || from.made.notes.mac !== notes.mac
    const resumed = async () => {
      await platform.setPaused(api, false)
      await unlessEnded(guest.ready)
      await unlessEnded(guest.request(`identity ${identity(home, notes, { moved, renew: from.renew })}`, identityMs))
      return unlessEnded(guest.ready)
    }
    const [status] = await context.time('resume', () => Promise.all([resumed(), launched.tap.bring()]))
    return runningVm(parseWorkload(status))
  })
}

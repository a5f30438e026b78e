import { join } from 'node:path'
import { makeScratch } from '../../disk/scratch.ts'
import { StepError } from '../../vm/errors.ts'
import type { Machine, PrepareContext, SnapshotSource } from '../driver.ts'
import { identity, identityMs } from '../identity.ts'
import { launch, type LaunchPlan, type Platform } from '../launch.ts'
import { parseWorkload } from '../machine.ts'
import { readNotes } from '../prepare.ts'
import { configFile, copyWritable, scratchFile } from '../snapshot-files.ts'
import { type Cell, driveSerial, place } from './cell.ts'
import type { FirecrackerDeps } from './driver.ts'
import { bootCalls, consoleCall, files, loadCall } from './requests.ts'
import { callAll, setState } from './vmm.ts'

/** From an image to a guest whose init answers. */
export async function bootVm(
  platform: Platform<Cell>,
  deps: Pick<FirecrackerDeps, 'cacheDir' | 'kernel'>,
  plan: LaunchPlan,
  context: PrepareContext,
): Promise<Machine> {
  const { dir, spec } = plan.home
  await context.time('disk', () => makeScratch(deps.cacheDir, join(dir, scratchFile), spec.diskMib))
  const { kernel, initrd } = await deps.kernel()
  return launch(platform, plan, context, async ({ cell, api, guest, unlessEnded, machine }) => {
    await place(cell, kernel, files.kernel, 'read')
    await place(cell, initrd, files.initrd, 'read')
    const { tap, mac } = await placeDisks(cell, plan)
    const serialOf = (name: string) => driveSerial(join(cell.dir, name))
    const serials = {
      base: await serialOf(files.base),
      scratch: await serialOf(files.scratch),
      config: await serialOf(files.config),
    }
    const calls = bootCalls({ vcpus: spec.vcpus, memoryMib: spec.memoryMib, tap, mac, serials })
    const status = await context.time('boot', async () => {
      await unlessEnded(callAll(api, calls))
      return unlessEnded(guest.ready)
    })
    return machine(parseWorkload(status))
  })
}

/** A VM's disks under the names that its Firecracker knows, and its network. */
export async function placeDisks(
  cell: Cell,
  { home, prepared }: Pick<LaunchPlan, 'home' | 'prepared'>,
): Promise<{ tap: string; mac: string }> {
  const { base, tap, mac } = readNotes(prepared)
  if (tap === null) throw new StepError('unsupported_by_hypervisor', 'Firecracker needs taps: run the agent as root')
  await place(cell, base, files.base, 'read')
  await place(cell, join(home.dir, scratchFile), files.scratch, 'write')
  await place(cell, join(home.dir, configFile), files.config, 'write')
  return { tap, mac }
}

/**
 * A VM that goes on from a snapshot. Firecracker maps the memory file privately, so clones share what none of them has
 * changed. A clone's link is up before it has its own address: until then the host's rules drop what it sends.
 */
export async function restoreVm(
  platform: Platform<Cell>,
  plan: LaunchPlan,
  from: SnapshotSource,
  context: PrepareContext,
): Promise<Machine> {
  const { home, prepared } = plan
  const notes = readNotes(prepared)
  await context.time('disk', () => copyWritable(join(from.dir, scratchFile), join(home.dir, scratchFile)))
  const logSeq = Number(from.made.notes.logSeq)
  return launch(platform, { ...plan, fromSeq: logSeq }, context, async ({ cell, api, guest, unlessEnded, machine }) => {
    const { tap } = await placeDisks(cell, plan)
    for (const name of [files.memory, files.state]) await place(cell, join(from.dir, name), name, 'read')
    await context.time('load', () => unlessEnded(callAll(api, [consoleCall(), loadCall(tap)])))
    const moved = from.renew || from.made.notes.guest !== notes.guest || from.made.notes.mac !== notes.mac
    const status = await context.time('resume', async () => {
      await setState(api, 'Resumed')
      await unlessEnded(guest.ready)
      await unlessEnded(guest.request(`identity ${identity(home, notes, { moved, renew: from.renew })}`, identityMs))
      return unlessEnded(guest.ready)
    })
    return machine(parseWorkload(status))
  })
}

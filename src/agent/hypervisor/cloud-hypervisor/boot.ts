import { readFile, rm, writeFile, mkdir } from 'node:fs/promises'
import { chown } from 'node:fs/promises'
import { join } from 'node:path'
import { makeScratch } from '../../disk/scratch.ts'
import { StepError } from '../../vm/errors.ts'
import type { Machine, PrepareContext, SnapshotSource } from '../driver.ts'
import { identity, identityMs } from '../identity.ts'
import { launch, type LaunchPlan, type Platform } from '../launch.ts'
import { parseWorkload } from '../machine.ts'
import { readNotes } from '../prepare.ts'
import { configFile, copyWritable, scratchFile } from '../snapshot-files.ts'
import { type Cell, place } from './cell.ts'
import { files, vmConfig, withTap } from './config.ts'
import type { CloudHypervisorDeps } from './driver.ts'

/** From an image to a guest whose init answers. */
export async function bootVm(
  platform: Platform<Cell>,
  deps: Pick<CloudHypervisorDeps, 'cacheDir' | 'kernel'>,
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
    const status = await context.time('boot', async () => {
      const config = vmConfig({ vcpus: spec.vcpus, memoryMib: spec.memoryMib, tap, mac })
      await unlessEnded(api.call('PUT', '/vm.create', config))
      await unlessEnded(api.call('PUT', '/vm.boot'))
      return unlessEnded(guest.ready)
    })
    return machine(parseWorkload(status))
  })
}

/** A VM's disks under the names that its VMM knows, and its network. */
export async function placeDisks(
  cell: Cell,
  { home, prepared }: Pick<LaunchPlan, 'home' | 'prepared'>,
): Promise<{ tap: string; mac: string }> {
  const { base, tap, mac } = readNotes(prepared)
  if (tap === null)
    throw new StepError('unsupported_by_hypervisor', 'Cloud Hypervisor needs taps: run the agent as root')
  await place(cell, base, files.base, 'read')
  await place(cell, join(home.dir, scratchFile), files.scratch, 'write')
  await place(cell, join(home.dir, configFile), files.config, 'write')
  return { tap, mac }
}

/**
 * A VM that goes on from a snapshot. Cloud Hypervisor reads the memory into its own, so clones share nothing. A clone's
 * link is up before it has its own address: until then the host's rules drop what it sends.
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
  return launch(platform, { ...plan, fromSeq: logSeq }, context, async launched => {
    const { cell, api, guest, unlessEnded, machine } = launched
    const { tap } = await placeDisks(cell, plan)
    const source = await placeState(cell, from.dir, tap)
    await context.time('load', () => unlessEnded(api.call('PUT', '/vm.restore', { source_url: `file://${fromDir}` })))
    await rm(source, { recursive: true, force: true })
    const moved = from.renew || from.made.notes.guest !== notes.guest || from.made.notes.mac !== notes.mac
    const status = await context.time('resume', async () => {
      await api.call('PUT', '/vm.resume')
      await unlessEnded(guest.ready)
      await unlessEnded(guest.request(`identity ${identity(home, notes, { moved, renew: from.renew })}`, identityMs))
      return unlessEnded(guest.ready)
    })
    return machine(parseWorkload(status))
  })
}

/** Relative to its working directory: the way to the VM's directory is closed to its user. */
const fromDir = 'from'

/** A snapshot's files in the cell, its settings with the tap that the VM has now. */
async function placeState(cell: Cell, from: string, tap: string): Promise<string> {
  const dir = join(cell.dir, fromDir)
  await mkdir(dir, { mode: 0o700 })
  if (cell.user) await chown(dir, cell.user.uid, cell.user.gid)
  for (const name of [files.memory, files.state]) await place(cell, join(from, name), join(fromDir, name), 'read')
  const settings = join(dir, files.settings)
  await writeFile(settings, withTap(await readFile(join(from, files.settings), 'utf8'), tap), { mode: 0o600 })
  if (cell.user) await chown(settings, cell.user.uid, cell.user.gid)
  return dir
}

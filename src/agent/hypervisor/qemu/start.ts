/** Starts the QEMU process of a VM. */
import { chown } from 'node:fs/promises'
import { join } from 'node:path'
import { allDone } from '../../../lib/all-done.ts'
import type { PrepareContext } from '../../base/prepare-context.ts'
import { confine, makeRunDir } from '../isolation.ts'
import { readNotes } from '../prepare.ts'
import { endProcess, type VmmProcess } from '../process.ts'
import { configFile, scratchFile } from '../snapshot-files.ts'
import { qemuArgs } from './argv.ts'
import type { Launch } from './launch.ts'
import { type QemuStart, spawnQemu, tapNetdev } from './spawn.ts'

/** Memory of a VM's cgroup beyond the guest's: QEMU's own, translated code (64 MiB), and page cache for the disks. */
const overheadMib = 512

/** Creates the disk, the directory and the cgroup of the VM in parallel, then starts QEMU in that cgroup. */
export async function startQemu(plan: Launch, context: PrepareContext): Promise<VmmProcess> {
  const { home, isolation, launcher } = plan
  const { dir, vmId } = home
  const user = isolation.userOf(vmId)
  const limits = { vcpus: home.spec.vcpus, memoryMib: home.spec.memoryMib + overheadMib }
  const makeGroup = async () => (launcher.start ? isolation.cgroups?.make(vmId, limits) : undefined)
  const makeDisk = context.time('disk', plan.scratch)
  // A booting guest runs as soon as QEMU starts, so its firewall rules must be loaded before. A restored guest runs
  // only after `cont`.
  const isHeld = plan.start.kind === 'incoming'
  const held = isHeld ? Promise.resolve() : plan.held(vmId)
  const [cgroup] = await allDone([makeGroup(), makeDisk, makeRunDir(dir, user), held])
  // QEMU reopens its scratch disk during a migration, after it has dropped its privileges to the VM's user.
  if (user) await chown(join(dir, scratchFile), user.uid, user.gid)
  const start = { ...startOf(plan), ...(cgroup === undefined ? {} : { cgroup }) }
  const process = await spawnQemu(launcher, start).catch(async (error: unknown) => {
    // If the launcher died before it reported QEMU's process, that process is in the cgroup and would keep disks and
    // tap open.
    if (cgroup !== undefined) await isolation.cgroups?.release(vmId)
    throw error
  })
  if (cgroup !== undefined) return process
  try {
    await confine(isolation, vmId, process.identity.pid, limits)
  } catch (error) {
    await endProcess({ process: process.identity })
    throw error
  }
  return process
}

/** Returns the directory, arguments and environment with which QEMU starts. */
function startOf({ home, prepared, accel, start, env, memoryEnv, isolation, program }: Launch): QemuStart {
  const { spec, dir, vmId } = home
  const user = isolation.userOf(vmId)
  const { tap, mac, base, devices, ...notes } = readNotes(prepared)
  const { netless } = isolation
  const apart = tap !== null && netless !== undefined ? { netless, tap } : undefined
  const args = qemuArgs({
    accel,
    devices,
    start,
    vcpus: spec.vcpus,
    memoryMib: spec.memoryMib,
    memoryNeedsName: program.memoryNeedsName,
    base,
    scratch: scratchFile,
    config: configFile,
    drives: home.drives ?? [],
    diskLimits: isolation.diskLimits,
    netdev: apart ? tapNetdev : notes.netdev,
    mac,
    ...(user ? { user: { is: user, program } } : {}),
  })
  return { dir, args, env: env ?? memoryEnv, ...(apart ? { apart } : {}) }
}

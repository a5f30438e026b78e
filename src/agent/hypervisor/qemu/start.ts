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

/** QEMU's own memory and translated code (64 MiB), and a part of the disks' cache that need not be fought for. */
const overheadMib = 512

/** Creates the disk, the directory and the cgroup of the VM in parallel, then starts QEMU in that cgroup. */
export async function startQemu(plan: Launch, context: PrepareContext): Promise<VmmProcess> {
  const { home, isolation, launcher } = plan
  const { dir, vmId } = home
  const user = isolation.userOf(vmId)
  const limits = { vcpus: home.spec.vcpus, memoryMib: home.spec.memoryMib + overheadMib }
  const makeGroup = async () => (launcher.start ? isolation.cgroups?.make(vmId, limits) : undefined)
  const makeDisk = context.time('disk', plan.scratch)
  // A guest that comes to life from its kernel runs as soon as there is a process; any other waits for a word of ours.
  const isHeld = plan.start.kind === 'incoming'
  const held = isHeld ? Promise.resolve() : plan.held(vmId)
  const [cgroup] = await allDone([makeGroup(), makeDisk, makeRunDir(dir, user), held])
  // QEMU opens its disk again when it leaves a machine or takes one over, and has the VM's rights by then.
  if (user) await chown(join(dir, scratchFile), user.uid, user.gid)
  const start = { ...startOf(plan), ...(cgroup === undefined ? {} : { cgroup }) }
  const process = await spawnQemu(launcher, start).catch(async (error: unknown) => {
    // Whoever was to say that it runs has died: it is in its group, and would keep the disks and the tap.
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

/** QEMU's arguments and surroundings. */
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

/** How a VM's QEMU comes to be: started, or one that waited for a VM. */
import { chown } from 'node:fs/promises'
import { join } from 'node:path'
import { allDone } from '../../../lib/all-done.ts'
import type { PrepareContext } from '../driver.ts'
import { confine, makeRunDir } from '../isolation.ts'
import { readNotes } from '../prepare.ts'
import { endProcess, type VmmProcess } from '../process.ts'
import { configFile, scratchFile } from '../snapshot-files.ts'
import { qemuArgs } from './argv.ts'
import type { Launch } from './launch.ts'
import { becomeQemu, type QemuStart, spawnQemu, tapNetdev } from './spawn.ts'

/** QEMU's own memory and translated code (64 MiB), and a part of the disks' cache that need not be fought for. */
const overheadMib = 512

interface StartedQemu {
  readonly process: VmmProcess
  /** It is in the VM's group. Until then its guest does not run. */
  readonly entered: Promise<void>
}

/** One of the pool, or a new one; the disk and what else QEMU opens is made first, and side by side. */
export async function startQemu(plan: Launch, context: PrepareContext): Promise<StartedQemu> {
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
  const taken = isHeld ? await takeWaiting(plan, start) : undefined
  if (taken) return taken
  const process = await spawnQemu(launcher, start).catch(async (error: unknown) => {
    // Whoever was to say that it runs has died: it is in its group, and would keep the disks and the tap.
    if (cgroup !== undefined) await isolation.cgroups?.release(vmId)
    throw error
  })
  if (cgroup !== undefined) return { process, entered: Promise.resolve() }
  try {
    await confine(isolation, vmId, process.identity.pid, limits)
  } catch (error) {
    await endProcess({ process: process.identity })
    throw error
  }
  return { process, entered: Promise.resolve() }
}

/**
 * One that waited moves into the VM's group while it starts: that takes longer (12 to 18 ms). Undefined: there is none, or
 * none that could become this VM.
 */
async function takeWaiting({ home, isolation, pool }: Launch, start: QemuStart): Promise<StartedQemu | undefined> {
  // Those of the pool have left the host's network where VMs have taps.
  if ((isolation.netless === undefined) !== (start.apart === undefined)) return undefined
  const waiting = pool.take()
  if (!waiting) return undefined
  const entered = Promise.resolve(isolation.cgroups?.enter(home.vmId, waiting.identity.pid))
  entered.catch(() => undefined) // whoever becomes the VM hears of it
  try {
    return { process: await becomeQemu(waiting, start), entered }
  } catch (error) {
    pool.failed(error)
    return undefined
  }
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

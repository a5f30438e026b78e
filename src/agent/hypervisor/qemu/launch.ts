import { chown } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { abortable } from '../../../lib/abortable.ts'
import { allDone } from '../../../lib/all-done.ts'
import { hasCode } from '../../../lib/files.ts'
import type { GuestChannel } from '../../guest/channel.ts'
import type { PrepareContext, Prepared, Running, VmHome, Watcher } from '../driver.ts'
import { confine, type Isolation, makeRunDir } from '../isolation.ts'
import { qemuArgs, type Start } from './argv.ts'
import { type Console, openConsole } from '../console.ts'
import { endProcess } from '../process.ts'
import type { Launcher } from '../../launcher/launcher.ts'
import { connectMachine } from './machine.ts'
import { readNotes } from '../prepare.ts'
import { configFile, scratchFile } from '../snapshot-files.ts'
import { StepError } from '../../vm/errors.ts'
import type { Qmp } from './qmp.ts'
import { spawnQemu, tapNetdev } from './spawn.ts'

export interface Launch {
  readonly home: VmHome
  readonly prepared: Prepared
  readonly boot: number
  readonly accel: 'kvm' | 'tcg'
  readonly start: Start
  readonly env?: Readonly<Record<string, string>>
  /** Log lines of the guest up to here are not wanted. */
  readonly fromSeq: number
  readonly watcher: Watcher
  readonly limitMs: number
  readonly isolation: Isolation
  readonly launcher: Launcher
  /** Makes its scratch disk. */
  readonly scratch: () => Promise<void>
  /** Resolves when the rules of its network hold (`Network.held`). @throws StepError `network_failed` */
  readonly held: (vmId: string) => Promise<void>
}

/** QEMU's own memory and translated code (64 MiB), and a part of the disks' cache that need not be fought for. */
const overheadMib = 512

/** A process whose sockets answer. */
export interface Launched {
  readonly running: Running
  readonly qmp: Qmp
  readonly guest: GuestChannel
  readonly console: Console
  readonly limit: AbortSignal
  readonly cgroupCpuSeconds: () => number | undefined
  /** The step's outcome; rejects when QEMU ends or the time is up. */
  unlessEnded<T>(step: Promise<T>): Promise<T>
}

/** Starts QEMU and hands it to `use`; whatever fails there, no process is left. */
export async function launch<T>(
  plan: Launch,
  context: PrepareContext,
  use: (launched: Launched) => Promise<T>,
): Promise<T> {
  const { home, prepared, boot, accel, isolation, launcher } = plan
  const { spec, dir, vmId } = home
  const user = isolation.userOf(vmId)
  const limits = { vcpus: spec.vcpus, memoryMib: spec.memoryMib + overheadMib }
  const makeGroup = async () => (launcher.start ? isolation.cgroups?.make(vmId, limits) : undefined)
  const makeDisk = context.time('disk', plan.scratch)
  // A guest that comes to life from its kernel runs as soon as there is a process; any other waits for a word of ours.
  const held = plan.start.kind === 'boot' ? plan.held(vmId) : Promise.resolve()
  const [cgroup] = await allDone([makeGroup(), makeDisk, makeRunDir(dir, user), held])
  // QEMU opens its disk again when it leaves a machine or takes one over, and has the VM's rights by then.
  if (user) await chown(join(dir, scratchFile), user.uid, user.gid)
  const { tap, mac, base, devices, ...notes } = readNotes(prepared)
  const { netless } = isolation
  const apart = tap !== null && netless !== undefined ? { netless, tap } : undefined
  const args = qemuArgs({
    ...{ accel, devices, start: plan.start, vcpus: spec.vcpus, memoryMib: spec.memoryMib },
    ...{
      base,
      scratch: scratchFile,
      config: configFile,
      drives: home.drives ?? [],
      netdev: apart ? tapNetdev : notes.netdev,
      mac,
      ...(user ? { user } : {}),
    },
  })
  const process = await spawnQemu(launcher, {
    ...{ dir, args },
    ...(plan.env ? { env: plan.env } : {}),
    ...(apart ? { apart } : {}),
    ...(cgroup === undefined ? {} : { cgroup }),
  }).catch(async (error: unknown) => {
    // Whoever was to say that it runs has died: it is in its group, and would keep the disks and the tap.
    if (cgroup !== undefined) await isolation.cgroups?.release(vmId)
    throw error
  })
  const running: Running = { prepared, process: process.identity, boot }
  const limit = AbortSignal.any([context.signal, AbortSignal.timeout(plan.limitMs)])
  const unlessEnded = <R>(step: Promise<R>) => abortable(Promise.race([step, process.ended]), limit)
  try {
    if (cgroup === undefined) await confine(isolation, vmId, process.identity.pid, limits)
    const links = await context.time('spawn', () => unlessEnded(connectSoon(plan, limit)))
    const console = await openConsole(dir)
    try {
      await unlessEnded(plan.held(vmId))
      const cgroupCpuSeconds = () => isolation.cgroups?.cpuSeconds(vmId)
      return await use({ running, ...links, console, limit, unlessEnded, cgroupCpuSeconds })
    } catch (error) {
      links.qmp.close()
      links.guest.close()
      console.close()
      if (error instanceof StepError) throw error
      throw new Error(`the guest did not start: ${messageOf(error)}; console: ${console.tail() || 'silent'}`, {
        cause: error,
      })
    }
  } catch (error) {
    await endProcess(running)
    throw error
  }
}

/** QEMU makes its sockets some 60 ms after it was started; 4 ms between attempts costs nothing. */
async function connectSoon({ home, fromSeq, watcher }: Launch, signal: AbortSignal) {
  for (;;) {
    try {
      return await connectMachine(home.dir, fromSeq, watcher)
    } catch (error) {
      if (!hasCode(error, 'ENOENT') && !hasCode(error, 'ECONNREFUSED')) throw error
    }
    await sleep(4, undefined, { signal })
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

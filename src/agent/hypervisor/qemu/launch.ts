import { setTimeout as sleep } from 'node:timers/promises'
import { abortable } from '../../../lib/abortable.ts'
import { hasCode } from '../../../lib/files.ts'
import { cpuSeconds } from '../../../lib/process-identity.ts'
import type { GuestChannel } from '../../guest/channel.ts'
import type { Launcher } from '../../launcher/launcher.ts'
import { StepError } from '../../base/step-error.ts'
import { type Console, openConsole } from '../console.ts'
import type { Prepared, Running, VmHome, Watcher } from '../driver.ts'
import type { PrepareContext } from '../../base/prepare-context.ts'
import type { Isolation } from '../isolation.ts'
import { endProcess } from '../process.ts'
import { explainSilence, silentAfterMs } from '../silent-guest.ts'
import type { Start } from './argv.ts'
import { connectVm } from './running-vm.ts'
import type { QemuProgram } from './program.ts'
import type { Qmp } from './qmp.ts'
import { startQemu } from './start.ts'

export interface Launch {
  readonly home: VmHome
  readonly prepared: Prepared
  readonly boot: number
  readonly program: QemuProgram
  readonly accel: 'kvm' | 'tcg'
  readonly start: Start
  /** Environment of a QEMU that maps a memory file. */
  readonly env?: Readonly<Record<string, string>>
  /** Environment of a QEMU that gets new memory. */
  readonly memoryEnv: Readonly<Record<string, string>>
  /** Number of the last log line that the agent has stored; the guest's lines up to it are skipped. */
  readonly fromSeq: number
  readonly watcher: Watcher
  readonly limitMs: number
  readonly isolation: Isolation
  readonly launcher: Launcher
  /** Creates the VM's scratch disk. */
  readonly scratch: () => Promise<void>
  /** Resolves when the VM's firewall rules apply (`Network.held`). @throws StepError `network_failed` */
  readonly held: (vmId: string) => Promise<void>
}

/** A started QEMU process to whose sockets the agent has connected. */
export interface Launched {
  readonly running: Running
  readonly qmp: Qmp
  readonly guest: GuestChannel
  readonly console: Console
  readonly limit: AbortSignal
  readonly cgroupCpuSeconds: () => number | undefined
  /** Awaits the step; rejects when QEMU exits or the time limit is reached. */
  unlessEnded<T>(step: Promise<T>): Promise<T>
}

/** Starts QEMU and passes it to `use`. If that fails, no process is left. */
export async function launch<T>(
  plan: Launch,
  context: PrepareContext,
  use: (launched: Launched) => Promise<T>,
): Promise<T> {
  const { home, prepared, boot, isolation } = plan
  const process = await startQemu(plan, context)
  const startedMs = performance.now()
  const running: Running = { prepared, process: process.identity, boot }
  const limit = AbortSignal.any([context.signal, AbortSignal.timeout(plan.limitMs)])
  const unlessEnded = <R>(step: Promise<R>) => abortable(Promise.race([step, process.ended]), limit)
  try {
    const links = await context.time('spawn', () => unlessEnded(connectSoon(plan, limit)))
    const console = await openConsole(home.dir)
    const watch = setTimeout(() => {
      const silent = { console: console.tail(), busy: busyShare(process.identity.pid, startedMs) }
      context.say(`the guest has sent nothing for ${silentAfterMs / 1000} s: ${explainSilence(silent)}`)
    }, silentAfterMs)
    try {
      await unlessEnded(plan.held(home.vmId))
      const cgroupCpuSeconds = () => isolation.cgroups?.cpuSeconds(home.vmId)
      return await use({ running, ...links, console, limit, unlessEnded, cgroupCpuSeconds })
    } catch (error) {
      links.qmp.close()
      links.guest.close()
      console.close()
      if (error instanceof StepError) throw error
      const silent = { console: console.tail(), busy: busyShare(process.identity.pid, startedMs) }
      const why = limit.aborted ? explainSilence(silent) : `console: ${silent.console || 'silent'}`
      throw new Error(`the guest did not start: ${messageOf(error)}; ${why}`, { cause: error })
    } finally {
      clearTimeout(watch)
    }
  } catch (error) {
    await endProcess(running)
    throw error
  }
}

/** Connects as soon as QEMU has created its sockets, about 60 ms after its start. Trying every 4 ms is cheap. */
async function connectSoon({ home, fromSeq, watcher }: Launch, signal: AbortSignal) {
  for (;;) {
    try {
      return await connectVm(home.dir, fromSeq, watcher)
    } catch (error) {
      if (!hasCode(error, 'ENOENT') && !hasCode(error, 'ECONNREFUSED')) throw error
    }
    await sleep(4, undefined, { signal })
  }
}

/** Returns the share of one CPU that a process has used since `startedMs`. */
function busyShare(pid: number, startedMs: number): number | undefined {
  const used = cpuSeconds(pid)
  return used === undefined ? undefined : (used * 1000) / (performance.now() - startedMs)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

import { setTimeout as sleep } from 'node:timers/promises'
import { abortable } from '../../../lib/abortable.ts'
import { hasCode } from '../../../lib/files.ts'
import { isRunning } from '../../../lib/process-identity.ts'
import type { GuestChannel } from '../../guest/channel.ts'
import { lastingGuest } from '../../guest/lasting.ts'
import type { TapsApart } from '../../net/net.ts'
import type { RunningVm, Prepared, Running, VmHome, Watcher, WorkloadState } from '../driver.ts'
import type { PrepareContext } from '../../base/prepare-context.ts'
import { confine, type Isolation } from '../isolation.ts'
import { runningVmOf, parseWorkload } from '../running-vm.ts'
import { readNotes } from '../prepare.ts'
import { endProcess } from '../process.ts'
import type { VmmHttp } from '../vmm-http.ts'
import type { VmmCell } from './cell.ts'
import { vmmOf } from './running-vm.ts'
import type { Platform } from './platform.ts'

export interface LaunchPlan {
  readonly home: VmHome
  readonly prepared: Prepared
  readonly boot: number
  readonly watcher: Watcher
  readonly limitMs: number
  readonly isolation: Isolation
  readonly madeBy: string
  /** Log lines of the guest up to here are not wanted. */
  readonly fromSeq: number
  /** Its VMM has a network namespace of its own; undefined: the host's. */
  readonly apart: TapsApart | undefined
}

/** A process whose API answers; there is no guest in it yet. */
export interface Launched {
  readonly cell: VmmCell
  readonly api: VmmHttp
  readonly guest: GuestChannel
  readonly running: Running
  readonly tap: TapWay
  /** The step's outcome; rejects when the VMM ends or the time is up. */
  unlessEnded<T>(step: Promise<T>): Promise<T>
  /** The same without a limit, for what happens long after the launch. */
  unlessGone<T>(step: Promise<T>): Promise<T>
  runningVm(workload: WorkloadState): RunningVm
}

/** How a VM's tap comes to where its VMM opens it, and back. Nothing to do where the VMM is in the host's network. */
export interface TapWay {
  /** Whether there is a way to go. */
  readonly apart: boolean
  /** Before it is opened. */
  make(): Promise<void>
  /** When it is open, once. For some 20 ms it is down, and what is written to it is an error. */
  bring(): Promise<void>
}

/** Starts a VMM and hands it to `use`; whatever fails there, no process is left. */
export async function launch<T>(
  platform: Platform,
  plan: LaunchPlan,
  context: PrepareContext,
  use: (launched: Launched) => Promise<T>,
): Promise<T> {
  const { home, isolation, boot, prepared } = plan
  const { dir, vmId, spec } = home
  const { cell, process } = await platform.start(home, isolation.userOf(vmId), plan.apart ? 'own' : 'host')
  const running: Running = { prepared, process: process.identity, boot }
  const limit = AbortSignal.any([context.signal, AbortSignal.timeout(plan.limitMs)])
  const unlessGone = <R>(step: Promise<R>) => Promise.race([step, process.ended])
  const unlessEnded = <R>(step: Promise<R>) => abortable(unlessGone(step), limit)
  const api = platform.api(dir)
  const guest = connectGuest(platform, dir, running, plan)
  try {
    const memoryMib = spec.memoryMib + platform.overheadMib
    await confine(isolation, vmId, process.identity.pid, { vcpus: spec.vcpus, memoryMib })
    await context.time('spawn', () => unlessEnded(untilAnswers(api, platform.greeting, limit)))
    const runningVm = (workload: WorkloadState) => runningVmFor(platform, { ...plan, running, guest }, workload)
    const tap = tapWay(plan, process.identity.pid)
    return await use({ cell, api, guest, running, tap, unlessEnded, unlessGone, runningVm })
  } catch (error) {
    guest.close()
    await endProcess(running)
    const console = await platform.consoleTail(dir)
    const reason = error instanceof Error ? error.message : String(error)
    throw new Error(`the guest did not start: ${reason}; console: ${console || 'silent'}`, { cause: error })
  }
}

function tapWay({ apart, home: { vmId } }: LaunchPlan, pid: number): TapWay {
  let brought: Promise<void> | undefined
  return {
    apart: apart !== undefined,
    make: async () => apart?.make(vmId, pid),
    bring: () => (brought ??= apart?.bring(vmId, pid) ?? Promise.resolve()),
  }
}

/** The guest of a VM whose process runs. */
export function connectGuest(
  platform: Pick<Platform, 'ports'>,
  vmDir: string,
  running: Running,
  { fromSeq, watcher }: Pick<LaunchPlan, 'fromSeq' | 'watcher'>,
): GuestChannel {
  const { onFrames, onExit, onBroken } = watcher
  const events = { onFrames, onStarted: () => undefined, onExit, onBroken }
  return lastingGuest(platform.ports(vmDir), fromSeq, events, () => isRunning(running.process))
}

export interface RunningVmInput extends Pick<LaunchPlan, 'home' | 'watcher' | 'isolation' | 'madeBy' | 'fromSeq'> {
  readonly running: Running
  readonly guest: GuestChannel
}

/** A booted or adopted VM as the agent sees it. */
export function runningVmFor(platform: Platform, input: RunningVmInput, workload: WorkloadState): RunningVm {
  const { home, running, guest, watcher, isolation, madeBy, fromSeq } = input
  const { dir, vmId, spec } = home
  const context = { running, vmId, vmDir: dir, memoryMib: spec.memoryMib, guest, madeBy }
  let console = ''
  const readConsole = async () => {
    console = await platform.consoleTail(dir).catch(() => '')
  }
  return runningVmOf({
    running,
    guest,
    workload,
    watcher,
    fromSeq,
    tap: readNotes(running.prepared).tap,
    consoleTail: () => console,
    cgroupCpuSeconds: () => isolation.cgroups?.cpuSeconds(vmId),
    vmm: {
      ...vmmOf(platform, { ...context, api: platform.api(dir), user: isolation.userOf(vmId) }),
      // There is no connection that stays: the guest's channel notices when the process has gone.
      closed: guest.closed.then(readConsole),
      close: () => platform.forget?.(dir),
    },
  })
}

/** The socket is there some 5 ms after the start (20 ms behind a jailer). */
export async function untilAnswers(api: VmmHttp, greeting: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      await api.call('GET', greeting, undefined, { timeoutMs: 2_000 })
      return
    } catch (error) {
      if (!hasCode(error, 'ENOENT') && !hasCode(error, 'ECONNREFUSED')) throw error
    }
    await sleep(4, undefined, { signal })
  }
}

/** How a paused or busy guest counts when an agent finds it: what it said before was reported then. */
export async function adoptedWorkload(guest: GuestChannel, state: 'running' | 'paused'): Promise<WorkloadState> {
  const unanswered: WorkloadState = { state: 'running' }
  if (state === 'paused') return unanswered
  const late = new AbortController()
  const waited = sleep(adoptMs, unanswered, { signal: late.signal, ref: false })
  waited.catch(() => undefined)
  return Promise.race([guest.ready.then(parseWorkload), waited]).finally(() => late.abort())
}

const adoptMs = 5_000

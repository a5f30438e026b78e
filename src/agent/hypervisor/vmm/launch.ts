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
  /** Number of the last log line that the agent has stored; the guest's lines up to it are skipped. */
  readonly fromSeq: number
  /** Creates the tap in the VMM's own network namespace; undefined if the VMM uses the host's namespace. */
  readonly apart: TapsApart | undefined
}

/** A started VMM whose API answers, but which has no guest yet. */
export interface Launched {
  readonly cell: VmmCell
  readonly api: VmmHttp
  readonly guest: GuestChannel
  readonly running: Running
  readonly tap: TapWay
  /** Awaits the step; rejects when the VMM exits or the time limit is reached. */
  unlessEnded<T>(step: Promise<T>): Promise<T>
  /** Like `unlessEnded`, but without a time limit, for steps long after the launch. */
  unlessGone<T>(step: Promise<T>): Promise<T>
  runningVm(workload: WorkloadState): RunningVm
}

/**
 * How a VM gets its tap: it is created in the VMM's network namespace and moved to the host's. If the VMM uses the
 * host's network namespace, both methods do nothing.
 */
export interface TapWay {
  /** True if the VMM has its own network namespace. */
  readonly apart: boolean
  /** Creates the tap; called before the VMM opens it. */
  make(): Promise<void>
  /**
   * Moves the tap, which the VMM has open, to the host. Later calls do nothing. The tap is down for about 20 ms; writes
   * to it fail meanwhile.
   */
  bring(): Promise<void>
}

/** Starts a VMM and passes it to `use`. If that fails, no process is left. */
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

/** Connects to the guest of a running VMM. */
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

/** Builds the `RunningVm` of a booted or adopted VMM. */
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
      // The VMM's API has no permanent connection. The channel to the guest closes when the VMM's process ends.
      closed: guest.closed.then(readConsole),
      close: () => platform.forget?.(dir),
    },
  })
}

/** Waits until the VMM's API answers. The API socket exists about 5 ms after the VMM's start (20 ms with a jailer). */
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

/**
 * Returns the state of an adopted VM's workload. If the guest does not answer, the workload counts as running, because
 * an exit would have been recorded by the earlier agent.
 */
export async function adoptedWorkload(guest: GuestChannel, state: 'running' | 'paused'): Promise<WorkloadState> {
  const unanswered: WorkloadState = { state: 'running' }
  if (state === 'paused') return unanswered
  const late = new AbortController()
  const waited = sleep(adoptMs, unanswered, { signal: late.signal, ref: false })
  waited.catch(() => undefined)
  return Promise.race([guest.ready.then(parseWorkload), waited]).finally(() => late.abort())
}

const adoptMs = 5_000

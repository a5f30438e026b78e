import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { cpuSeconds } from '../../lib/process-identity.ts'
import { parseWords, Status, TwoCounts } from '../guest/answers.ts'
import type { GuestChannel } from '../guest/channel.ts'
import { programsOf } from '../guest/exec.ts'
import { sessionsOf } from '../guest/sessions.ts'
import { encodeWord } from '../../lib/words.ts'
import type { RunningVm, VmStatistics, Running, Watcher, WorkloadState } from './driver.ts'
import { afterPause } from './identity.ts'
import { endProcess, untilGone } from './process.ts'

export const answerMs = 2_000
/** Timeout of the guest's `freeze` command, which also flushes the guest's page cache. */
const freezeMs = 10_000

export interface GuestMemory {
  /** Memory that the guest uses; 0 until the guest's first report. */
  readonly ramUsedBytes: number
  /** Memory that the balloon leaves to the guest; absent without a balloon. */
  readonly balloonActualMib?: number
}

/** The hypervisor-specific operations of a running VM. */
export interface Vmm
  extends Required<Pick<RunningVm, 'inspect' | 'pause' | 'resume' | 'attachDisk' | 'detachDisk'>>,
    Pick<RunningVm, 'setBalloon' | 'growDisk' | 'copyDisk' | 'freezeDisk' | 'thawDisk'> {
  readMemory(): Promise<GuestMemory>
  /** @param logSeq number of the last log line that the agent has stored */
  snapshot(dir: string, logSeq: number): ReturnType<NonNullable<RunningVm['snapshot']>>
  readonly handOver?: RunningVm['handOver']
  /** True if the guest has moved to another host and must never run here again. */
  hasLeft(): Promise<boolean>
  /** Resolves when the VMM closes its control connection; at once if the VMM has no permanent one. */
  readonly closed: Promise<void>
  close(): void
}

export interface RunningVmParts {
  readonly running: Running
  readonly vmm: Vmm
  readonly guest: GuestChannel
  readonly workload: WorkloadState
  /** Returns the last output on the guest's console. */
  readonly consoleTail: () => string
  readonly watcher: Watcher
  readonly tap: string | null
  /** Number of the last log line of the guest that is already stored. */
  readonly fromSeq: number
  /** CPU time that the VM's cgroup has used; undefined if the VM has no cgroup. */
  readonly cgroupCpuSeconds: () => number | undefined
}

/** Builds the `RunningVm` of a booted or adopted VM. */
export function runningVmOf(parts: RunningVmParts): RunningVm {
  const { running, vmm, guest, watcher } = parts
  let detached = false
  /** True once the agent has detached. Waiting for the VM's end would then keep the agent's process alive. */
  let left = false
  let logSeq = parts.fromSeq
  // The guest's connection closes only after its last log line was read, which may be after the VMM has exited.
  const gone = Promise.all([vmm.closed, guest.closed]).then(() => (left ? undefined : untilGone(running)))
  let move: Promise<unknown> = Promise.resolve()
  gone.then(async () => {
    guest.close()
    vmm.close()
    // When a VM migrates, its VMM on this host exits before the migration is complete.
    await move.catch(() => undefined)
    if (!detached) watcher.onGone(parts.consoleTail())
  })
  const end = async () => {
    await endProcess(running)
    await gone
  }
  const { handOver } = vmm
  const leaving =
    (depart: NonNullable<Vmm['handOver']>): NonNullable<RunningVm['handOver']> =>
    async (...args) => {
      const moved = depart(...args).then(result => {
        detached = true
        return result
      })
      move = moved
      const result = await moved
      await end()
      return result
    }
  return {
    running,
    workload: parts.workload,
    inspect: vmm.inspect,
    startWorkload: async () => void (await guest.request('start', answerMs)),
    listening: async port => (await guest.request(`listening ${port}`, answerMs)) === '1',
    async stop(graceMs, after = 'halted') {
      detached = true
      // Don't wait until the guest's kernel has powered off, which takes another 50 ms after the guest's message.
      const over = Promise.race([guest.said('halted'), guest.said(after)]).then(() => vmm.inspect())
      // Resume first, because a paused guest cannot answer. A guest that does not answer is killed after the grace
      // period.
      const ask = () => vmm.resume().then(() => guest.request(`off ${graceMs}`, answerMs))
      const asked = vmm
        .hasLeft()
        .then(left => (left ? Promise.reject(new Error('the VM runs on another host')) : ask()))
      const timer = new AbortController()
      const late = asked.then(() => sleep(graceMs + 1_000, undefined, { signal: timer.signal }))
      await Promise.race([gone, over.catch(() => undefined), late.catch(() => undefined)])
      timer.abort()
      await end()
    },
    async kill() {
      detached = true
      await end()
    },
    pause: vmm.pause,
    async resume() {
      await vmm.resume()
      // The guest's clock stopped during the pause, so set it.
      guest.request(`identity ${afterPause()}`, answerMs).catch(() => undefined)
    },
    stats: () => readStats(parts),
    ...(vmm.setBalloon ? { setBalloon: vmm.setBalloon } : {}),
    exec: programsOf(guest),
    sessions: sessionsOf(guest),
    snapshot: dir => vmm.snapshot(dir, logSeq),
    attachDisk: vmm.attachDisk,
    detachDisk: vmm.detachDisk,
    ...(vmm.growDisk ? { growDisk: vmm.growDisk } : {}),
    ...(vmm.copyDisk ? { copyDisk: vmm.copyDisk } : {}),
    freezeDisk:
      vmm.freezeDisk ?? (async disk => void (await guest.request(`freeze ${encodeWord(disk.mountPoint)}`, freezeMs))),
    thawDisk: vmm.thawDisk ?? (async () => void (await guest.request('thaw', answerMs))),
    ...(handOver === undefined ? {} : { handOver: leaving(handOver) }),
    ack(seq) {
      logSeq = Math.max(logSeq, seq)
      guest.ack(seq)
    },
    detach() {
      detached = true
      left = true
      guest.close()
      vmm.close()
    },
  }
}

async function readStats(parts: RunningVmParts): Promise<VmStatistics> {
  const { running, vmm, guest, tap } = parts
  const [memory, counters] = await Promise.all([
    vmm.readMemory(),
    tap === null ? guestCounters(guest) : Promise.resolve(tapCounters(tap)),
  ])
  return { cpuSeconds: parts.cgroupCpuSeconds() ?? cpuSeconds(running.process.pid) ?? 0, ...memory, ...counters }
}

type Counters = Pick<VmStatistics, 'rxBytes' | 'txBytes'>

async function guestCounters(guest: GuestChannel): Promise<Counters> {
  const [rxBytes, txBytes] = parseWords(TwoCounts, await guest.request('net', answerMs))
  return { rxBytes, txBytes }
}

/** Reads the counters of the VM's tap: bytes that the host sends are bytes that the guest receives. */
function tapCounters(tap: string): Counters {
  const read = (name: string) => Number(readFileSync(`/sys/class/net/${tap}/statistics/${name}`, 'utf8'))
  return { rxBytes: read('tx_bytes'), txBytes: read('rx_bytes') }
}

/** Parses the guest's answer to `status`. @throws GuestFault */
export function parseWorkload(status: string): WorkloadState {
  const [word, code] = parseWords(Status, status)
  return word === 'exited' ? { state: 'exited', code } : { state: 'running' }
}

/** The least memory that the balloon leaves to a guest. With less, the guest's kernel would kill programs. */
export function balloonFloorMib(memoryMib: number): number {
  return Math.min(memoryMib, Math.max(64, Math.ceil(memoryMib / 4)))
}

/** Limits the balloon's target (null: all memory) to the range from the minimum to the VM's memory. */
export function balloonTarget(targetMib: number | null, memoryMib: number): number {
  return Math.min(memoryMib, Math.max(targetMib ?? memoryMib, balloonFloorMib(memoryMib)))
}

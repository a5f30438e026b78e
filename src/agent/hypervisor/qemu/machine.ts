import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { hasCode } from '../../../lib/files.ts'
import { cpuSeconds, isRunning } from '../../../lib/process-identity.ts'
import { type GuestChannel, openGuest } from '../../guest/channel.ts'
import { execInGuest } from '../../guest/exec.ts'
import type { Machine, MachineStats, Running, Watcher, WorkloadState } from '../driver.ts'
import { readMemory, setBalloon } from './balloon.ts'
import type { Console } from './console.ts'
import { hotplug } from './hotplug.ts'
import { handOver, hasLeft } from './migrate.ts'
import { asObject, connectQmp, type Qmp } from './qmp.ts'
import { takeSnapshot } from './snapshot.ts'

export const qmpSocket = 'qmp.sock'
const answerMs = 2_000

export interface MachineParts {
  readonly running: Running
  readonly qmp: Qmp
  readonly guest: GuestChannel
  readonly workload: WorkloadState
  readonly console: Console
  readonly watcher: Watcher
  readonly tap: string | null
  readonly dir: string
  readonly memoryMib: number
  /** For its snapshots: VMM and version, CPU model. */
  readonly madeBy: string
  /** Log lines of the guest up to here are safe already. */
  readonly fromSeq: number
}

/** A booted or adopted VM as the agent sees it. */
export function qemuMachine(parts: MachineParts): Machine {
  const { running, qmp, guest, console, watcher, dir } = parts
  let detached = false
  let logSeq = parts.fromSeq
  const disks = hotplug(qmp, guest)
  // The guest's connection ends when its last line has been read, which may be after the process has gone.
  const gone = Promise.all([qmp.closed, guest.closed]).then(() => untilGone(running))
  gone.then(() => {
    guest.close()
    console.close()
    if (!detached) watcher.onGone(console.tail())
  })
  return {
    running,
    workload: parts.workload,
    inspect: async () => (asObject(await qmp.execute('query-status')).running === true ? 'running' : 'paused'),
    startWorkload: async () => void (await guest.request('start', answerMs)),
    listening: async port => (await guest.request(`listening ${port}`, answerMs)) === '1',
    async stop(graceMs) {
      detached = true
      // A paused guest cannot hear; a guest that does not answer is ended when its time is up.
      const ask = () => qmp.execute('cont').then(() => guest.request(`off ${graceMs}`, answerMs))
      const asked = hasLeft(qmp).then(left => (left ? Promise.reject(new Error('it runs elsewhere')) : ask()))
      const timer = new AbortController()
      const late = asked.then(() => sleep(graceMs + 1_000, undefined, { signal: timer.signal }))
      await Promise.race([gone, late.catch(() => undefined)])
      timer.abort()
      await endProcess(running)
      await gone
    },
    pause: async () => void (await qmp.execute('stop')),
    resume: async () => void (await qmp.execute('cont')),
    stats: () => readStats(parts),
    setBalloon: targetMib => setBalloon(qmp, targetMib, parts.memoryMib),
    exec: (command, timeoutMs) => execInGuest(guest, command, timeoutMs),
    snapshot: target => takeSnapshot({ qmp, running, dir, target, madeBy: parts.madeBy, logSeq }),
    attachDisk: disks.attach,
    detachDisk: disks.detach,
    async handOver(uri, onProgress, signal) {
      const result = await handOver(qmp, uri, onProgress, signal)
      detached = true
      await endProcess(running)
      await gone
      return result
    },
    ack(seq) {
      logSeq = Math.max(logSeq, seq)
      guest.ack(seq)
    },
    detach() {
      detached = true
      guest.close()
      console.close()
      qmp.close()
    },
  }
}

/** Kills the process if it is still the same one, and waits for its end. */
export async function endProcess(running: Pick<Running, 'process'>): Promise<void> {
  try {
    if (isRunning(running.process)) process.kill(running.process.pid, 'SIGKILL')
  } catch (error) {
    if (!hasCode(error, 'ESRCH')) throw error // it ended in between
  }
  await untilGone(running)
}

async function untilGone(running: Pick<Running, 'process'>): Promise<void> {
  // The control connection closes a moment before the process is reaped.
  while (isRunning(running.process)) await sleep(3)
}

async function readStats({ running, qmp, guest, tap }: MachineParts): Promise<MachineStats> {
  const [memory, counters] = await Promise.all([
    readMemory(qmp),
    tap === null ? guestCounters(guest) : Promise.resolve(tapCounters(tap)),
  ])
  return { cpuSeconds: cpuSeconds(running.process.pid) ?? 0, ...memory, ...counters }
}

type Counters = Pick<MachineStats, 'rxBytes' | 'txBytes'>

async function guestCounters(guest: GuestChannel): Promise<Counters> {
  const [rxBytes = 0, txBytes = 0] = (await guest.request('net', answerMs)).split(' ').map(Number)
  return { rxBytes, txBytes }
}

/** What the host sends into the tap is what the guest receives. */
function tapCounters(tap: string): Counters {
  const read = (name: string) => Number(readFileSync(`/sys/class/net/${tap}/statistics/${name}`, 'utf8'))
  return { rxBytes: read('tx_bytes'), txBytes: read('rx_bytes') }
}

/** Connects to everything a running QEMU offers. The caller closes what it got when it fails half-way. */
export async function connectMachine(
  dir: string,
  fromSeq: number,
  watcher: Watcher,
): Promise<{ qmp: Qmp; guest: GuestChannel }> {
  const qmp = await connectQmp(dir, qmpSocket)
  try {
    const guest = await openGuest(dir, fromSeq, {
      onFrames: watcher.onFrames,
      onStarted: () => undefined,
      onExit: watcher.onExit,
    })
    return { qmp, guest }
  } catch (error) {
    qmp.close()
    throw error
  }
}

export function parseWorkload(status: string): WorkloadState {
  const [word, code] = status.split(' ')
  return word === 'exited' ? { state: 'exited', code: Number(code) } : { state: 'running' }
}

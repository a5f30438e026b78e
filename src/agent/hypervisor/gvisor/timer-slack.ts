/**
 * Timer slack of idle sandboxes. gVisor's platform wakes up 900 times a second to control its fast path, also when no
 * program in the sandbox runs (`controlFastPath`, 400 us; it has no option). That takes 3 % of a core. With more timer
 * slack (PR_SET_TIMERSLACK(2const)), the kernel of the host merges these wake-ups.
 */
import { readdirSync, writeFileSync } from 'node:fs'
import type { VmStatistics } from '../driver.ts'

type Use = Pick<VmStatistics, 'cpuSeconds' | 'rxBytes' | 'txBytes'>

/** The default timer slack of Linux, in nanoseconds. */
export const normalSlackNs = 50_000

/**
 * Timer slack by idle time; the first row that applies is used. An idle sandbox took 3.0 % of a core with normal slack,
 * 0.5 % with 20 ms, and 0.2 % with 60 ms. The first requests after an idle time take longer, by up to 30 ms (20 ms
 * slack) or 240 ms (60 ms slack), because the sandbox's Go scheduler depends on timers. The next reading resets the
 * slack.
 */
const levels = [
  { idleSeconds: 60, slackNs: 60_000_000 },
  { idleSeconds: 5, slackNs: 20_000_000 },
  { idleSeconds: 0, slackNs: normalSlackNs },
] as const

/**
 * An idle sandbox takes 3 % of a core for its wake-ups on a fast host and 8 % on a slow one, plus up to 12 % in the
 * second of a health check. So CPU time is averaged over five seconds, and the limits depend on `floor`: the lowest
 * recent usage in a second with normal slack, at most 8 %.
 */
const averageMs = 5000
const highestFloor = 0.08
/** Rise of `floor` per second. Otherwise a pause of the VM, in which it uses nothing, would lower it for ever. */
const floorRise = 0.001
const cpuLimits = {
  normal: (floor: number) => Math.max(0.06, 2 * floor),
  withSlack: (floor: number) => Math.max(0.02, 0.7 * floor),
} as const
/** Usage in one second that shows at once that a sandbox is busy. */
const busy = { cpu: 0.25, bytes: 4096 } as const

/**
 * Pauses before the next attempt if the sandbox was busy soon after it got slack, for example because a program always
 * takes 10 % of a core: doubled each time.
 */
const pauseMs = { first: 10_000, most: 600_000 } as const
/** A sandbox that has had slack for this long was idle, so the next attempt follows without a pause. */
const provenMs = 60_000

type Reading = Use & { readonly atMs: number }

function rateBetween(from: Reading, to: Reading) {
  const seconds = (to.atMs - from.atMs) / 1000
  return {
    cpu: (to.cpuSeconds - from.cpuSeconds) / seconds,
    bytes: (to.rxBytes + to.txBytes - from.rxBytes - from.txBytes) / seconds,
  }
}

/** Returns a function that takes each reading of a sandbox's usage and returns the timer slack for the sandbox. */
export function slackMeter(): (use: Use, atMs: number) => number {
  /** Readings of the last five seconds with the current slack. */
  let readings: Reading[] = []
  let floor: number = highestFloor
  let idleSinceMs = 0
  let slackSinceMs = 0
  let nextTry = { atMs: 0, pauseMs: 0 }
  let slackNs = normalSlackNs

  const isComputing = (first: Reading, now: Reading) => {
    // The first seconds may contain a health check, whose CPU time would be too large a part of the average.
    if (now.atMs - first.atMs < averageMs - 2000) return false
    return rateBetween(first, now).cpu > cpuLimits[slackNs > normalSlackNs ? 'withSlack' : 'normal'](floor)
  }
  const pauseAfter = (atMs: number) => {
    if (slackNs === normalSlackNs) return
    const isProven = atMs - slackSinceMs >= provenMs
    const pause = isProven ? 0 : Math.min(pauseMs.most, Math.max(pauseMs.first, 2 * nextTry.pauseMs))
    nextTry = { atMs: atMs + pause, pauseMs: pause }
  }
  const isIdle = (now: Reading) => {
    const [first, last] = [readings[0], readings.at(-1)]
    if (first === undefined || last === undefined) return false
    const recent = rateBetween(last, now)
    if (slackNs === normalSlackNs) floor = Math.min(highestFloor, floor + floorRise, recent.cpu)
    if (recent.cpu > busy.cpu || recent.bytes > busy.bytes) return false
    if (!isComputing(first, now)) return true
    pauseAfter(now.atMs)
    return false
  }
  return (use, atMs) => {
    const now = { cpuSeconds: use.cpuSeconds, rxBytes: use.rxBytes, txBytes: use.txBytes, atMs }
    if (!isIdle(now)) idleSinceMs = atMs
    const idleSeconds = atMs < nextTry.atMs ? 0 : (atMs - idleSinceMs) / 1000
    const wanted = levels.find(level => idleSeconds >= level.idleSeconds)?.slackNs ?? normalSlackNs
    readings = wanted === slackNs ? [...readings.filter(one => atMs - one.atMs < averageMs), now] : [now]
    if (slackNs === normalSlackNs && wanted > normalSlackNs) slackSinceMs = atMs
    slackNs = wanted
    return slackNs
  }
}

/** Sets the timer slack of all threads of a process. Has no effect without CAP_SYS_NICE. */
export function setTimerSlack(pid: number, slackNs: number): void {
  for (const thread of threadsOf(pid))
    try {
      writeFileSync(`/proc/${thread}/timerslack_ns`, String(slackNs))
    } catch {
      // Either this thread has exited, or the agent lacks CAP_SYS_NICE. Both are harmless.
    }
}

/** Returns the ids of the process's threads; none if it has exited. */
function threadsOf(pid: number): readonly string[] {
  try {
    return readdirSync(`/proc/${pid}/task`)
  } catch {
    return []
  }
}

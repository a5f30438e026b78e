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

/** Usage per second below which a sandbox is idle. With normal slack, the wake-ups alone take up to 4 % of a core. */
const limits = { cpu: 0.06, cpuWithSlack: 0.02, bytes: 4096 } as const

/** Returns a function that takes each reading of a sandbox's usage and returns the timer slack for the sandbox. */
export function slackMeter(): (use: Use, atMs: number) => number {
  let last: (Use & { readonly atMs: number }) | undefined
  let idleSinceMs = 0
  let slackNs = normalSlackNs
  const isIdle = (use: Use, atMs: number) => {
    if (last === undefined) return false
    const seconds = (atMs - last.atMs) / 1000
    const cpu = (use.cpuSeconds - last.cpuSeconds) / seconds
    const bytes = (use.rxBytes + use.txBytes - last.rxBytes - last.txBytes) / seconds
    return cpu < (slackNs > normalSlackNs ? limits.cpuWithSlack : limits.cpu) && bytes < limits.bytes
  }
  return (use, atMs) => {
    if (!isIdle(use, atMs)) idleSinceMs = atMs
    last = { cpuSeconds: use.cpuSeconds, rxBytes: use.rxBytes, txBytes: use.txBytes, atMs }
    const idleSeconds = (atMs - idleSinceMs) / 1000
    slackNs = levels.find(level => idleSeconds >= level.idleSeconds)?.slackNs ?? normalSlackNs
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

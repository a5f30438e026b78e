/** Measures stalls of the event loop, during which no request is served. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { seconds } from './duration.ts'
import { openThreadClock } from './thread-times.ts'

export interface StallWatch {
  /** Returns the longest stall since the last call, ms. */
  longestMs(): number
  /** Number of one-second intervals with a stall above the threshold, since the start. */
  readonly stalls: () => number
  /** Time since the start in which the main thread was ready to run but had no processor, ms. */
  waitedMs(): number
  stop(): void
}

/**
 * A stall, and what the main thread did in the second in which it ended. The rest is neither: it waited for a disk, for the
 * start of a program, or for threads of the garbage collector.
 */
export interface Stall {
  /** Duration. */
  readonly ms: number
  /** CPU time: as much of the stall may be computation of the program. */
  readonly cpuMs: number
  /** Time without a processor: as much of the stall may be due to other processes. */
  readonly waitedMs: number
}

export interface StallOptions {
  /** Minimum duration of a stall that is counted. */
  readonly thresholdMs?: number
  /** All times are whole milliseconds. */
  readonly onStall?: (stall: Stall) => void
}

/** Wakes up 50 times per second; a stall is measured up to this much too short. */
const resolutionMs = 20
const checkMs = seconds(1)

export function watchStalls({ thresholdMs = 200, onStall = () => undefined }: StallOptions = {}): StallWatch {
  const histogram = monitorEventLoopDelay({ resolution: resolutionMs })
  histogram.enable()
  const clock = openThreadClock()
  const started = clock.read()
  let last = started
  let longest = 0
  let stalls = 0
  const check = () => {
    // The histogram contains the time between wake-ups; without a wake-up it is empty.
    const ms = histogram.count > 0 ? Math.max(0, histogram.max / 1e6 - resolutionMs) : 0
    const before = last
    last = clock.read()
    longest = Math.max(longest, ms)
    if (ms < thresholdMs) return
    // Reset only here, because a reset histogram is blind until its next wake-up.
    histogram.reset()
    stalls += 1
    const [cpuMs, waitedMs] = [last.cpuMs - before.cpuMs, last.waitedMs - before.waitedMs]
    onStall({ ms: Math.round(ms), cpuMs: Math.round(cpuMs), waitedMs: Math.round(waitedMs) })
  }
  const timer = setInterval(check, checkMs).unref()
  return {
    longestMs() {
      check()
      const ms = longest
      longest = 0
      histogram.reset()
      return ms
    },
    stalls: () => stalls,
    waitedMs: () => clock.read().waitedMs - started.waitedMs,
    stop() {
      clearInterval(timer)
      histogram.disable()
      clock.close()
    },
  }
}

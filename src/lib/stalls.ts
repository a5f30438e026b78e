/** Measures stalls of the event loop, during which the process serves no requests. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { seconds } from './duration.ts'
import { openThreadClock } from './thread-times.ts'

export interface StallWatch {
  /** Returns the duration of the longest stall since the last call, in ms. */
  longestMs(): number
  /** Returns the number of one-second intervals since the start that contained a stall above the threshold. */
  readonly stalls: () => number
  /** Returns the time since the start in which the main thread was runnable but had no CPU, in ms. */
  waitedMs(): number
  stop(): void
}

/**
 * A stall, and how the main thread spent the second in which it ended. The time in neither `cpuMs` nor `waitedMs` was
 * spent waiting for a disk, for the start of a program, or for threads of the garbage collector.
 */
export interface Stall {
  /** Duration of the stall, in ms. */
  readonly ms: number
  /**
   * CPU time of the main thread in the second in which the stall ended, in ms. At most this much of the stall is due to
   * computation in this program.
   */
  readonly cpuMs: number
  /**
   * Time in which the main thread was runnable but had no CPU, within the second in which the stall ended, in ms. At
   * most this much of the stall is due to other processes.
   */
  readonly waitedMs: number
}

export interface StallOptions {
  /** Minimum duration of a stall that is counted and reported, in ms. */
  readonly thresholdMs?: number
  /** Called for each stall. All times are whole milliseconds. */
  readonly onStall?: (stall: Stall) => void
}

/** Interval of the wake-ups that measure the delay. A measured stall may be up to this much too short. */
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
    // The histogram contains the times between wake-ups. It is empty if there was no wake-up.
    const ms = histogram.count > 0 ? Math.max(0, histogram.max / 1e6 - resolutionMs) : 0
    const before = last
    last = clock.read()
    longest = Math.max(longest, ms)
    if (ms < thresholdMs) return
    // Reset the histogram only after a stall, because a reset histogram measures nothing until its next wake-up.
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

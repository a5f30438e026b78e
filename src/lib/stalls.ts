/** Measures stalls of the event loop, during which no request is served. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { seconds } from './duration.ts'

export interface StallWatch {
  /** Returns the longest stall since the last call, ms. */
  longestMs(): number
  /** Number of one-second intervals with a stall above the threshold, since the start. */
  readonly stalls: () => number
  stop(): void
}

export interface StallOptions {
  /** Minimum duration of a stall that is counted. */
  readonly thresholdMs?: number
  readonly onStall?: (ms: number) => void
}

/** Wakes up 50 times per second; a stall is measured up to this much too short. */
const resolutionMs = 20
const checkMs = seconds(1)

export function watchStalls({ thresholdMs = 200, onStall = () => undefined }: StallOptions = {}): StallWatch {
  const histogram = monitorEventLoopDelay({ resolution: resolutionMs })
  histogram.enable()
  let longest = 0
  let stalls = 0
  const check = () => {
    // The histogram contains the time between wake-ups; without a wake-up it is empty.
    const ms = histogram.count > 0 ? Math.max(0, histogram.max / 1e6 - resolutionMs) : 0
    longest = Math.max(longest, ms)
    if (ms < thresholdMs) return
    // Reset only here, because a reset histogram is blind until its next wake-up.
    histogram.reset()
    stalls += 1
    onStall(Math.round(ms))
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
    stop() {
      clearInterval(timer)
      histogram.disable()
    },
  }
}

/** Watches how long the event loop stands still: nothing else is served meanwhile, whoever asks. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { seconds } from './duration.ts'

export interface StallWatch {
  /** The longest since this was asked last, ms. */
  longestMs(): number
  /** How many intervals of a second had one that counts, since the start. */
  readonly stalls: () => number
  stop(): void
}

export interface StallOptions {
  /** What counts. */
  readonly thresholdMs?: number
  readonly onStall?: (ms: number) => void
}

/** Wakes 50 times a second; a stall is seen as up to so much shorter than it was. */
const resolutionMs = 20
const lookMs = seconds(1)

export function watchStalls({ thresholdMs = 200, onStall = () => undefined }: StallOptions = {}): StallWatch {
  const histogram = monitorEventLoopDelay({ resolution: resolutionMs })
  histogram.enable()
  let longest = 0
  let stalls = 0
  const look = () => {
    // The histogram has the time from one wake to the next; without a wake it has none.
    const ms = histogram.count > 0 ? Math.max(0, histogram.max / 1e6 - resolutionMs) : 0
    longest = Math.max(longest, ms)
    if (ms < thresholdMs) return
    // It sees nothing then until its next wake, so it is not reset for less.
    histogram.reset()
    stalls += 1
    onStall(Math.round(ms))
  }
  const timer = setInterval(look, lookMs).unref()
  return {
    longestMs() {
      look()
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

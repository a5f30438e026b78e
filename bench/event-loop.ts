/**
 * How long the event loop computes without a pause, in CPU time of the main thread: other processes on a busy machine do
 * not count.
 */
export interface Turns {
  /** The longest computation since the last call, ms. */
  readonly longestMs: number
  /** CPU time of the main thread since the last call, ms. */
  readonly cpuMs: number
}

/** Starts to measure. Each call of the result returns the figures since the last one. */
export function watchTurns(): () => Turns {
  let longestMs = 0
  let cpuMs = 0
  let last = process.threadCpuUsage()
  const look = () => {
    const used = process.threadCpuUsage(last)
    last = process.threadCpuUsage()
    const ms = (used.user + used.system) / 1000
    longestMs = Math.max(longestMs, ms)
    cpuMs += ms
  }
  setInterval(look, 1).unref()
  return () => {
    look()
    const found = { longestMs, cpuMs }
    longestMs = 0
    cpuMs = 0
    return found
  }
}

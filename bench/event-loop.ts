/**
 * Measures how long the event loop computes without a pause. It measures CPU time of the main thread, so the load of
 * other processes does not count.
 */
import { openThreadClock } from '../src/lib/thread-times.ts'

/**
 * The longest time in which the event loop did not handle events. The rest of `ms` that is neither in `cpuMs` nor in
 * `waitedMs` was spent waiting, for example for a disk.
 */
export interface LongestStall {
  readonly ms: number
  /** CPU time of the main thread during the stall. */
  readonly cpuMs: number
  /** Time during the stall in which the thread was ready to run but had no processor. */
  readonly waitedMs: number
}

export interface Turns {
  /** The longest computation without a pause since the last call, in milliseconds. */
  readonly longestMs: number
  /** CPU time of the main thread since the last call, in milliseconds. */
  readonly cpuMs: number
  /** The longest stall since the last call. */
  readonly stall: LongestStall
}

const none: LongestStall = { ms: 0, cpuMs: 0, waitedMs: 0 }

/**
 * Starts to measure the event loop. Each call of the returned function returns the figures since its last call.
 * @param everyMs sampling interval and precision; sampling every 5 ms costs about 1 % of a core
 */
export function watchTurns(everyMs = 1): () => Turns {
  const clock = openThreadClock()
  let longestMs = 0
  let cpuMs = 0
  let stall = none
  let last = { at: performance.now(), ...clock.read() }
  const look = () => {
    const now = { at: performance.now(), ...clock.read() }
    const used = now.cpuMs - last.cpuMs
    const ms = now.at - last.at - everyMs
    if (ms > stall.ms) stall = { ms, cpuMs: Math.min(ms, used), waitedMs: Math.min(ms, now.waitedMs - last.waitedMs) }
    longestMs = Math.max(longestMs, used)
    cpuMs += used
    last = now
  }
  setInterval(look, everyMs).unref()
  return () => {
    look()
    const found = { longestMs, cpuMs, stall }
    longestMs = 0
    cpuMs = 0
    stall = none
    return found
  }
}

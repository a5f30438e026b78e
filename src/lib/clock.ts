/** Time as a dependency, so that tests and the simulation can control it. */
export interface Clock {
  /** Returns the wall-clock time. */
  now(): Date
  /** Returns milliseconds that never decrease, for measurements and timeouts. */
  monotonicMs(): number
}

export const systemClock: Clock = {
  now: () => new Date(),
  monotonicMs: () => performance.now(),
}

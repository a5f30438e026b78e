/** Time as a dependency, so that tests and the simulation can turn it. */
export interface Clock {
  /** Wall time. */
  now(): Date
  /** Milliseconds that never go backwards; for measuring and time-outs. */
  monotonicMs(): number
}

export const systemClock: Clock = {
  now: () => new Date(),
  monotonicMs: () => performance.now(),
}

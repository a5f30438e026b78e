/** Counters by name, shared between the code that counts and the code that reports. */
export interface Tally {
  add(name: string, count: number): void
  /** Returns the current value of each counter. */
  counts(): ReadonlyMap<string, number>
}

export function createTally(): Tally {
  const counts = new Map<string, number>()
  return {
    add: (name, count) => void counts.set(name, (counts.get(name) ?? 0) + count),
    counts: () => counts,
  }
}

/** Counts by name, from where something happens to where it is shown. */
export interface Tally {
  add(name: string, count: number): void
  /** So far. */
  counts(): ReadonlyMap<string, number>
}

export function createTally(): Tally {
  const counts = new Map<string, number>()
  return {
    add: (name, count) => void counts.set(name, (counts.get(name) ?? 0) + count),
    counts: () => counts,
  }
}

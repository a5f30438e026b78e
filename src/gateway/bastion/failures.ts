/** Limits failed logins to a number per client IP address and minute. */
export interface Failures {
  /** Returns false when the IP address has used up its failed logins. */
  mayTry(address: string): boolean
  note(address: string): void
}

const windowMs = 60_000
const mostAddresses = 100_000

export function countFailures(most: number, nowMs: () => number): Failures {
  const recent = new Map<string, { count: number; sinceMs: number }>()
  const entry = (address: string) => {
    const found = recent.get(address)
    if (found && nowMs() - found.sinceMs < windowMs) return found
    recent.delete(address)
    return undefined
  }
  return {
    mayTry: address => (entry(address)?.count ?? 0) < most,
    note(address) {
      const found = entry(address)
      if (found) found.count++
      else {
        // Evict the oldest entry, so that a flood of addresses cannot grow the table without bound.
        const [oldest] = recent.keys()
        if (recent.size >= mostAddresses && oldest !== undefined) recent.delete(oldest)
        recent.set(address, { count: 1, sinceMs: nowMs() })
      }
    },
  }
}

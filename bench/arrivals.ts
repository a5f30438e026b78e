/** Counts events that many connections receive. */

export interface Arrivals {
  /** Processes data that connection `n` received. */
  take(n: number, chunk: Buffer): void
  /** Resolves once each connection has received this many events in total. */
  until(events: number): Promise<void>
}

/** Starts counting. @param marker bytes that occur exactly once per event */
export function arrivals(connections: number, marker: Buffer): Arrivals {
  const observed = Array.from({ length: connections }, () => 0)
  // For each connection, the end of its previous chunk, because a marker may be split across chunks.
  const rests: Buffer[] = Array.from({ length: connections }, () => Buffer.alloc(0))
  let waiting: { readonly events: number; readonly resolve: () => void } | undefined
  let left = 0
  const count = (n: number, events: number) => {
    const before = observed[n] ?? 0
    observed[n] = before + events
    if (waiting && before < waiting.events && before + events >= waiting.events && --left === 0) waiting.resolve()
  }
  return {
    take(n, chunk) {
      const rest = rests[n]
      const text = rest === undefined || rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
      let events = 0
      let end = 0
      for (let at = text.indexOf(marker); at >= 0; at = text.indexOf(marker, end)) {
        events++
        end = at + marker.length
      }
      rests[n] = text.subarray(Math.max(end, text.length - marker.length + 1))
      if (events > 0) count(n, events)
    },
    async until(events) {
      left = observed.filter(count => count < events).length
      if (left === 0) return
      await new Promise<void>(resolve => (waiting = { events, resolve }))
      waiting = undefined
    },
  }
}

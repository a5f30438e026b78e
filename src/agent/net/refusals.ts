/** What guests are refused, from the kernel's counters to a line in their logs. */
import { minutes } from '../../lib/duration.ts'
import type { Refused } from './firewall.ts'
import { type GuestLimits, type RefusalKind, refusalText } from '../base/network-limits.ts'
import type { OnRefused } from './net.ts'

/** Answers how much each count has grown since the reading before. One that is smaller began anew. */
export function growthOf(): (reading: readonly Refused[]) => Refused[] {
  let before: ReadonlyMap<string, number> = new Map()
  return reading => {
    const grown = reading.map(({ tap, kind, count }) => {
      const last = before.get(keyOf(tap, kind)) ?? 0
      return { tap, kind, count: count < last ? count : count - last }
    })
    before = new Map(reading.map(({ tap, kind, count }) => [keyOf(tap, kind), count]))
    return grown.filter(({ count }) => count > 0)
  }
}

const keyOf = (owner: string, kind: RefusalKind) => `${owner} ${kind}`

/** The log of a VM gets a line about each kind as often as that. */
const sayEveryMs = minutes(1)

export interface RefusalOptions {
  readonly limits: GuestLimits
  readonly nowMs: () => number
  readonly say: (vmId: string, line: string) => void
  /** For the metrics of the host. */
  readonly onCount: (kind: RefusalKind, count: number) => void
}

/** Counts all of it, and says so in the VM's log at most once a minute. */
export function refusalReporter({ limits, nowMs, say, onCount }: RefusalOptions): OnRefused {
  const unsaid = new Map<string, { count: number; saidAtMs: number }>()
  return (vmId, kind, count) => {
    onCount(kind, count)
    const atMs = nowMs()
    const entry = unsaid.get(keyOf(vmId, kind)) ?? { count: 0, saidAtMs: Number.NEGATIVE_INFINITY }
    entry.count += count
    unsaid.set(keyOf(vmId, kind), entry)
    if (atMs - entry.saidAtMs < sayEveryMs) return
    say(vmId, refusalText(kind, entry.count, limits))
    // Those of VMs that have gone would stay for good.
    for (const [key, { saidAtMs }] of unsaid) if (atMs - saidAtMs >= 2 * sayEveryMs) unsaid.delete(key)
    unsaid.set(keyOf(vmId, kind), { count: 0, saidAtMs: atMs })
  }
}

/** Reports refused packets of guests: from the kernel's counters to lines in the VMs' logs. */
import { minutes } from '../../lib/duration.ts'
import type { Refused } from './firewall.ts'
import { type GuestLimits, type RefusalKind, refusalText } from '../base/network-limits.ts'
import type { OnRefused } from './net.ts'

/**
 * Returns a function that computes the growth of each count since the previous reading. A smaller count means that the
 * counter was reset.
 */
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

/** Minimum time between two log lines of one kind for a VM. */
const sayEveryMs = minutes(1)

export interface RefusalOptions {
  readonly limits: GuestLimits
  readonly nowMs: () => number
  readonly say: (vmId: string, line: string) => void
  /** Updates the metrics of the host. */
  readonly onCount: (kind: RefusalKind, count: number) => void
}

/** Counts every refusal, and writes a line to the VM's log at most once a minute. */
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
    // Drop old entries: those of removed VMs would stay forever.
    for (const [key, { saidAtMs }] of unsaid) if (atMs - saidAtMs >= 2 * sayEveryMs) unsaid.delete(key)
    unsaid.set(keyOf(vmId, kind), { count: 0, saidAtMs: atMs })
  }
}

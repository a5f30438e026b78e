/** Reports refused packets of guests: reads the kernel's counters, and writes lines to the logs of VMs. */
import { minutes } from '../../lib/duration.ts'
import type { Refused } from './firewall.ts'
import { type GuestLimits, type RefusalKind, refusalText } from '../base/network-limits.ts'
import type { OnRefused } from './net.ts'

/**
 * Returns a function that computes how much each count has grown since the previous reading. If a count is smaller than
 * before, its counter was reset.
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

/** Minimum time between two log lines about the same kind of refusal for one VM. */
const sayEveryMs = minutes(1)

export interface RefusalOptions {
  readonly limits: GuestLimits
  readonly nowMs: () => number
  readonly say: (vmId: string, line: string) => void
  /** Adds refusals to the metrics of the host. */
  readonly onCount: (kind: RefusalKind, count: number) => void
}

/** Returns a function that counts every refusal, and writes a line to the VM's log at most once a minute. */
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
    // Delete old entries: entries of removed VMs would otherwise stay forever.
    for (const [key, { saidAtMs }] of unsaid) if (atMs - saidAtMs >= 2 * sayEveryMs) unsaid.delete(key)
    unsaid.set(keyOf(vmId, kind), { count: 0, saidAtMs: atMs })
  }
}

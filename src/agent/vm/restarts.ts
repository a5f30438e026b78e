import { backoffMs } from '../../lib/backoff.ts'
import type { VmRecord } from './record.ts'

/** A workload that ran this long has earned its restarts back. */
const steadyMs = 10 * 60_000

/** Restarts that count against the VM's budget. */
export function recentRestarts({ startedAtMs, recentRestarts }: VmRecord, nowMs: number): number {
  return startedAtMs !== null && nowMs - startedAtMs > steadyMs ? 0 : recentRestarts
}

/** Before the next start of a workload that ended: longer each time, at most 30 s. */
export function restartPauseMs({ recentRestarts }: VmRecord, random: number): number {
  return recentRestarts === 0 ? 0 : backoffMs(recentRestarts, random, { capMs: 30_000 })
}

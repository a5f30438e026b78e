import { backoffMs } from '../../lib/backoff.ts'
import type { VmSpec } from '../../contract/agent.ts'
import type { VmRecord } from './record.ts'

/** If the VM has run for this time, its earlier restarts no longer count. */
const steadyMs = 10 * 60_000

/** Returns how many restarts of the VM count toward `maxRestarts`. */
export function recentRestarts({ startedAtMs, recentRestarts }: VmRecord, nowMs: number): number {
  return startedAtMs !== null && nowMs - startedAtMs > steadyMs ? 0 : recentRestarts
}

/** Whether the workload is restarted after it has exited with this code, according to the VM's `restartOn`. */
export const isRestarted = ({ restartOn }: Pick<VmSpec, 'restartOn'>, exitCode: number | null): boolean =>
  restartOn === undefined || (restartOn === 'failure' && exitCode !== 0)

/**
 * Returns the delay before the workload is restarted, in milliseconds. It increases with the number of recent restarts,
 * up to 30 s.
 */
export function restartPauseMs({ recentRestarts }: VmRecord, random: number): number {
  return recentRestarts === 0 ? 0 : backoffMs(recentRestarts, random, { capMs: 30_000 })
}

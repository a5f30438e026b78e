import { backoffMs } from '../../lib/backoff.ts'
import type { VmSpec } from '../../contract/agent.ts'
import type { VmRecord } from './record.ts'

/** After this running time, earlier restarts no longer count. */
const steadyMs = 10 * 60_000

/** Returns the number of restarts that count against `maxRestarts`. */
export function recentRestarts({ startedAtMs, recentRestarts }: VmRecord, nowMs: number): number {
  return startedAtMs !== null && nowMs - startedAtMs > steadyMs ? 0 : recentRestarts
}

/** False if the VM's `restartOn` excludes a workload that has exited with this code. */
export const isRestarted = ({ restartOn }: Pick<VmSpec, 'restartOn'>, exitCode: number | null): boolean =>
  restartOn === undefined || (restartOn === 'failure' && exitCode !== 0)

/** Returns the delay before a workload is restarted: increasing, at most 30 s. */
export function restartPauseMs({ recentRestarts }: VmRecord, random: number): number {
  return recentRestarts === 0 ? 0 : backoffMs(recentRestarts, random, { capMs: 30_000 })
}

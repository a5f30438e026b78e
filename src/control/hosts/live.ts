/**
 * What hosts push every second and nobody needs to keep: cpu, memory and traffic of each VM. Every control plane hears
 * every beat and holds the newest numbers in memory, so that a live view never asks a host and never writes a row.
 */
import type { HostBeat, VmStats } from '../../contract/agent.ts'

export interface LiveStats {
  /** The newest numbers of a VM; undefined before its first beat, or after ten seconds of silence. */
  get(vmId: string): VmStats | undefined
  /** Calls back for every beat that has numbers, until stopped. */
  subscribe(onBeat: (beat: HostBeat) => void): { stop(): void }
  record(beat: HostBeat, nowMs: number): void
  /** Forgets what is stale; called now and then. */
  prune(nowMs: number): number
  readonly size: number
}

const staleMs = 10_000

export function createLiveStats(clock: { now(): Date }): LiveStats {
  const byVm = new Map<string, { readonly stats: VmStats; readonly heardMs: number }>()
  const listeners = new Set<(beat: HostBeat) => void>()
  return {
    get(vmId) {
      const found = byVm.get(vmId)
      return found && clock.now().getTime() - found.heardMs <= staleMs ? found.stats : undefined
    },
    subscribe(onBeat) {
      listeners.add(onBeat)
      return { stop: () => void listeners.delete(onBeat) }
    },
    record(beat, nowMs) {
      for (const stats of beat.stats) byVm.set(stats.vmId, { stats, heardMs: nowMs })
      if (beat.stats.length > 0) for (const listener of listeners) listener(beat)
    },
    prune(nowMs) {
      let removed = 0
      for (const [vmId, { heardMs }] of byVm)
        if (nowMs - heardMs > staleMs) {
          byVm.delete(vmId)
          removed++
        }
      return removed
    },
    get size() {
      return byVm.size
    },
  }
}

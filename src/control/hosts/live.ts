/**
 * What hosts push every second and nobody needs to keep: cpu, memory and traffic of each VM. Every control plane hears
 * every beat and holds the newest numbers in memory, so that a live view never asks a host and never writes a row.
 */
import type { HostHeartbeat, VmStats } from '../../contract/agent.ts'
import type { NetworkObserved } from '../../contract/network.ts'
import { createDrains, createRequestLoad, type Drains, type RequestLoad } from '../routing/index.ts'

export interface LiveStats {
  /** The newest numbers of a VM; undefined before its first beat, or after ten seconds of silence. */
  get(vmId: string): VmStats | undefined
  /** What hosts that were heard of in the last seconds say of their part of the private networks. */
  networks(): ReadonlyMap<string, NetworkObserved>
  /** Calls back for every beat that has numbers, until stopped. */
  subscribe(onHeartbeat: (heartbeat: HostHeartbeat) => void): { stop(): void }
  record(heartbeat: HostHeartbeat, nowMs: number): void
  /** What gateways say. */
  readonly requests: RequestLoad
  readonly drains: Drains
  /** Forgets what is stale; called now and then. */
  prune(nowMs: number): number
  readonly size: number
}

const staleMs = 10_000
/** Hosts beat each second; longer silence shows as a partition. */
const quietMs = 3_500

export function createLiveStats(clock: { now(): Date }): LiveStats {
  const byVm = new Map<string, { readonly stats: VmStats; readonly heardMs: number }>()
  const byHost = new Map<string, { readonly network: NetworkObserved; readonly heardMs: number }>()
  const listeners = new Set<(heartbeat: HostHeartbeat) => void>()
  return {
    requests: createRequestLoad(),
    drains: createDrains(clock.now().getTime()),
    get(vmId) {
      const found = byVm.get(vmId)
      return found && clock.now().getTime() - found.heardMs <= staleMs ? found.stats : undefined
    },
    networks() {
      const nowMs = clock.now().getTime()
      const heard = [...byHost].filter(([, { heardMs }]) => nowMs - heardMs <= quietMs)
      return new Map(heard.map(([hostId, { network }]) => [hostId, network]))
    },
    subscribe(onHeartbeat) {
      listeners.add(onHeartbeat)
      return { stop: () => void listeners.delete(onHeartbeat) }
    },
    record(heartbeat, nowMs) {
      if (heartbeat.privateNetwork) byHost.set(heartbeat.hostId, { network: heartbeat.privateNetwork, heardMs: nowMs })
      for (const stats of heartbeat.stats) byVm.set(stats.vmId, { stats, heardMs: nowMs })
      if (heartbeat.stats.length > 0) for (const listener of listeners) listener(heartbeat)
    },
    prune(nowMs) {
      let removed = 0
      for (const [hostId, { heardMs }] of byHost) if (nowMs - heardMs > staleMs) byHost.delete(hostId)
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

/**
 * Live metrics that hosts push every second and that are never stored: CPU, memory and traffic of each VM. Every
 * control plane receives every heartbeat and holds the newest metrics in memory, so a live view never queries a host or
 * writes a row.
 */
import type { HostHeartbeat, VmStats } from '../../contract/agent.ts'
import type { NetworkObserved } from '../../contract/network.ts'
import { createDrains, createRequestLoad, type Drains, type RequestLoad } from '../routing/index.ts'

export interface LiveStats {
  /** Returns the newest metrics of a VM; undefined before its first heartbeat, or after ten seconds of silence. */
  get(vmId: string): VmStats | undefined
  /** Returns the private network state of all hosts that have reported in the last 3.5 seconds. */
  networks(): ReadonlyMap<string, NetworkObserved>
  /** Calls `onHeartbeat` for every heartbeat that has metrics, until `stop` is called. */
  subscribe(onHeartbeat: (heartbeat: HostHeartbeat) => void): { stop(): void }
  record(heartbeat: HostHeartbeat, nowMs: number): void
  /** Numbers of open requests, as reported by gateways. */
  readonly requests: RequestLoad
  readonly drains: Drains
  /** Drops entries of VMs and hosts that are silent; called periodically. */
  prune(nowMs: number): number
  readonly size: number
}

const staleMs = 10_000
/** Silence after which a host counts as partitioned from the network. Hosts send a heartbeat each second. */
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

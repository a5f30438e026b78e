/** Combines the network measurements that hosts report into the state of the mesh. Pure. */
import type { NetworkObserved, PeerObserved } from '../../contract/network.ts'
import { meshAddress, type MeshHost } from './hosts.ts'
import type { MeshStatus, nodeStatuses } from './resources.ts'

export interface MeshInput {
  readonly prefix: string
  /** All hosts, in the order of their names. */
  readonly hosts: readonly { readonly id: string; readonly name: string }[]
  readonly meshHosts: readonly MeshHost[]
  /** Newest network reports, by host id. Hosts that have not reported for some seconds are missing. */
  readonly observed: ReadonlyMap<string, NetworkObserved>
  /** True if the reader is an administrator, who also sees addresses, keys and endpoints. */
  readonly isAdmin: boolean
}

/**
 * State of a host in the mesh. `off`: not in the mesh. `down`: its agent is silent. `failed`: its mesh network does not
 * work. `alone`: there is no other host. `up`, `degraded`, `unreachable`: the host is connected in both directions with
 * all, some or none of the other running hosts.
 */
type NodeStatus = (typeof nodeStatuses)[number]

export function meshStatus(input: MeshInput): MeshStatus {
  const meshed = new Map(input.meshHosts.map(host => [host.hostId, host]))
  const nodes = input.hosts.map(host => {
    const known = meshed.get(host.id)
    const own = input.observed.get(host.id)?.mesh?.peers ?? []
    const links = linksOf(input, host.id)
    const secret = input.isAdmin && known ? known : undefined
    return {
      host_id: host.id,
      name: host.name,
      status: statusOf(input, host.id, links),
      address: secret ? meshAddress(input.prefix, host.id) : null,
      public_key: secret?.publicKey ?? null,
      endpoint: secret?.endpoint ?? null,
      last_handshake_at: instant(Math.max(...own.map(peer => peer.lastHandshakeAtMs ?? 0))),
      rx_bytes: sum(own, 'rxBytes'),
      tx_bytes: sum(own, 'txBytes'),
      latency_ms: median(links.flatMap(link => link.latencyMs ?? [])),
    }
  })
  return { enabled: meshed.size > 0, nodes }
}

interface Link {
  /** Latency measured by the other host; null unless both hosts receive each other's packets. */
  readonly latencyMs: number | null
}

/** Returns the host's links to every other host whose agent reports. */
function linksOf({ observed, meshHosts }: MeshInput, hostId: string): Link[] {
  const others = meshHosts.filter(other => other.hostId !== hostId && observed.get(other.hostId)?.mesh)
  const latency = (from: string, to: string) =>
    observed.get(from)?.mesh?.peers.find(peer => peer.hostId === to)?.latencyMs ?? null
  return others.map(({ hostId: other }) => ({
    latencyMs: latency(hostId, other) === null ? null : latency(other, hostId),
  }))
}

function statusOf({ observed, meshHosts }: MeshInput, hostId: string, links: readonly Link[]): NodeStatus {
  const own = observed.get(hostId)
  if (!own) return 'down'
  if (own.error !== null) return 'failed'
  if (!own.mesh) return 'off'
  if (meshHosts.length < 2) return 'alone'
  const reached = links.filter(link => link.latencyMs !== null).length
  if (reached === 0) return 'unreachable'
  return reached === links.length ? 'up' : 'degraded'
}

const sum = (peers: readonly PeerObserved[], key: 'rxBytes' | 'txBytes') =>
  peers.reduce((total, peer) => total + peer[key], 0)
const instant = (ms: number) => (ms > 0 ? new Date(ms).toISOString() : null)

function median(values: readonly number[]): number | null {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? null
}

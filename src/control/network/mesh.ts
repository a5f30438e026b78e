/** The mesh as hosts measure it, put together. Pure. */
import type { NetworkObserved, PeerObserved } from '../../contract/network.ts'
import { meshAddress, type MeshHost } from './hosts.ts'
import type { MeshStatus, nodeStatuses } from './resources.ts'

export interface MeshInput {
  readonly prefix: string
  /** All hosts there are, by name. */
  readonly hosts: readonly { readonly id: string; readonly name: string }[]
  readonly meshHosts: readonly MeshHost[]
  /** By host: those that were heard of in the last seconds. */
  readonly observed: ReadonlyMap<string, NetworkObserved>
  /** Addresses, keys and endpoints are for administrators. */
  readonly isAdmin: boolean
}

/**
 * `off`: not in the mesh. `down`: its agent is silent. `failed`: its mesh does not work. `alone`: there is no other.
 * `up`, `degraded`, `unreachable`: all, some, none of the others that are up reach it and are reached.
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
  /** As the other side measures it; null unless both hear each other. */
  readonly latencyMs: number | null
}

/** To every other host whose agent is heard of. */
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

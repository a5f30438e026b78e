/**
 * Computes the private network configuration of each host: takes database rows, and returns the complete configuration
 * per host.
 */
import { createHash } from 'node:crypto'
import type { HostIpv4, HostNetwork, MeshPeer, Zone } from '../../contract/network.ts'
import { contains, formatIp, parseCidr } from '../../lib/cidr.ts'

export interface PlacedVm {
  readonly projectId: string
  readonly hostId: string
  readonly address: string
}

export interface NetworkName {
  readonly projectId: string
  readonly name: string
  readonly addresses: readonly string[]
}

export interface MeshHost {
  readonly hostId: string
  readonly publicKey: string
  readonly endpoint: string
  /** IPv4 network that the host's guests use now; null if they have none. */
  readonly ipv4: HostIpv4 | null
  /** IPv4 network that is assigned to the host (/20, CIDR); null if none was assigned yet, or none was free. */
  readonly assigned: string | null
}

/** VMs and DNS names of some projects. */
export interface ProjectNetworks {
  /** Version of the network configuration. Increases with each read; a host refuses a smaller version than it has. */
  readonly version: number
  readonly vms: readonly PlacedVm[]
  readonly names: readonly NetworkName[]
}

/** VMs and DNS names of all projects, and the hosts of the mesh. */
export interface NetworkState extends ProjectNetworks {
  /** IPv6 prefix of the installation, from which projects get their networks. */
  readonly prefix: string
  readonly meshHosts: readonly MeshHost[]
}

/** Returns a host's address in the mesh: the first /64 of the prefix, then 64 bits of a hash of the host's id. */
export function meshAddress(prefix: string, hostId: string): string {
  const network = parseCidr(prefix)
  if (!network) throw new Error(`BUG: ${prefix} is no prefix`)
  const low = createHash('sha256').update(hostId).digest().readBigUInt64BE(0)
  return formatIp({ family: 6, value: network.value | low })
}

/**
 * The network messages for all hosts. A host gets only the projects with VMs on it: their names, and the locations of
 * their other VMs. The size of a message and the time to build it are therefore proportional to the VMs on the host,
 * and a change of one project rebuilds only the messages for its hosts.
 */
export interface Networks {
  readonly meshHosts: readonly MeshHost[]
  /**
   * Returns the network message for this host. Returns the same object until the message's content may have changed.
   */
  of(hostId: string): HostNetwork
  /**
   * Replaces all rows of these projects. Hosts with a VM of these projects, before or after the change, get new
   * messages.
   */
  replace(projectIds: Iterable<string>, rows: ProjectNetworks): void
}

export function networksOf(state: NetworkState): Networks {
  const { prefix, meshHosts } = state
  const vms = mapOfLists(state.vms)
  const names = mapOfLists(state.names)
  const onHost = new Map<string, Set<string>>()
  const peers = reachablePeers(state)
  const meshed = new Map(meshHosts.map(host => [host.hostId, host]))
  const made = new Map<string, HostNetwork>()
  const versions = new Map<string, number>()
  const place = ({ hostId, projectId }: PlacedVm) => {
    const there = onHost.get(hostId)
    if (there) there.add(projectId)
    else onHost.set(hostId, new Set([projectId]))
  }
  for (const vm of state.vms) place(vm)

  const make = (hostId: string): HostNetwork => {
    const projects = [...(onHost.get(hostId) ?? [])].sort()
    const zones = projects.map(projectId => zoneOf(projectId, names.get(projectId) ?? []))
    const own = meshed.get(hostId)
    const elsewhere = projects.flatMap(projectId => vms.get(projectId) ?? []).filter(vm => vm.hostId !== hostId)
    const reached = own ? peersOf(peers, hostId, elsewhere) : []
    const guests = own?.assigned ? { guests: own.assigned } : {}
    const content = { address: meshAddress(prefix, hostId), ...guests, peers: reached, zones }
    const hash = createHash('sha256').update(JSON.stringify(content)).digest('hex').slice(0, 32)
    return { version: versions.get(hostId) ?? state.version, hash, ...content }
  }
  return {
    meshHosts,
    of(hostId) {
      const network = made.get(hostId) ?? make(hostId)
      made.set(hostId, network)
      return network
    },
    replace(projectIds, rows) {
      const now = { vms: mapOfLists(rows.vms), names: mapOfLists(rows.names) }
      const touched = new Set<string>()
      for (const projectId of projectIds) {
        for (const { hostId } of vms.get(projectId) ?? []) {
          touched.add(hostId)
          onHost.get(hostId)?.delete(projectId)
        }
        vms.set(projectId, now.vms.get(projectId) ?? [])
        names.set(projectId, now.names.get(projectId) ?? [])
        for (const vm of vms.get(projectId) ?? []) {
          touched.add(vm.hostId)
          place(vm)
        }
      }
      for (const hostId of touched) {
        made.delete(hostId)
        versions.set(hostId, rows.version)
      }
    },
  }
}

const mapOfLists = <T extends { readonly projectId: string }>(rows: readonly T[]): Map<string, readonly T[]> =>
  Map.groupBy(rows, row => row.projectId)

/** Returns the network messages for these hosts. */
export function hostNetworks(state: NetworkState, hostIds: Iterable<string>): Map<string, HostNetwork> {
  const networks = networksOf(state)
  return new Map([...hostIds].map(hostId => [hostId, networks.of(hostId)]))
}

function zoneOf(projectId: string, names: readonly NetworkName[]): Zone {
  const sorted = names.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  return { projectId, names: sorted.map(({ name, addresses }) => ({ name, addresses: addresses.toSorted() })) }
}

type Peer = Omit<MeshPeer, 'vmAddresses'>

/**
 * Returns the hosts of the mesh in a fixed order. If two hosts have the same guest network, packets to it would be
 * ambiguous, so neither gets IPv4 routes.
 */
function reachablePeers({ prefix, meshHosts }: Pick<NetworkState, 'prefix' | 'meshHosts'>): Peer[] {
  const networks = meshHosts.map(({ hostId, ipv4 }) => ({ hostId, guests: ipv4 ? parseCidr(ipv4.guests) : undefined }))
  const isAlone = (hostId: string, own: NonNullable<ReturnType<typeof parseCidr>>) =>
    networks.every(
      ({ hostId: other, guests }) => other === hostId || !guests || !(contains(own, guests) || contains(guests, own)),
    )
  return meshHosts
    .toSorted((a, b) => (a.hostId < b.hostId ? -1 : 1))
    .map(({ hostId, publicKey, endpoint, ipv4 }) => {
      const own = ipv4 ? parseCidr(ipv4.guests) : undefined
      const address = meshAddress(prefix, hostId)
      return { hostId, publicKey, endpoint, address, ...(ipv4 && (!own || isAlone(hostId, own)) ? { ipv4 } : {}) }
    })
}

function peersOf(peers: readonly Peer[], hostId: string, elsewhere: readonly PlacedVm[]): MeshPeer[] {
  const behind = Map.groupBy(elsewhere, vm => vm.hostId)
  return peers
    .filter(peer => peer.hostId !== hostId)
    .map(peer => ({ ...peer, vmAddresses: (behind.get(peer.hostId) ?? []).map(vm => vm.address).sort() }))
}

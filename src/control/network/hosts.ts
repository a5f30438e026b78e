/** What each host is told of the private networks. Pure: rows in, one full state for each host out. */
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
  /** What it has; null where guests have no network of their own. */
  readonly ipv4: HostIpv4 | null
  /** What it was given (/20, CIDR); null: nothing yet, or nothing was left. */
  readonly assigned: string | null
}

export interface NetworkState {
  /** Grows; a host refuses a smaller one. */
  readonly version: number
  /** Of the installation. */
  readonly prefix: string
  readonly vms: readonly PlacedVm[]
  readonly names: readonly NetworkName[]
  readonly meshHosts: readonly MeshHost[]
}

/** A host's address in the mesh: in the first /64 of the prefix, and 64 bits of a hash of its id. */
export function meshAddress(prefix: string, hostId: string): string {
  const network = parseCidr(prefix)
  if (!network) throw new Error(`BUG: ${prefix} is no prefix`)
  const low = createHash('sha256').update(hostId).digest().readBigUInt64BE(0)
  return formatIp({ family: 6, value: network.value | low })
}

/**
 * A host hears of the projects that have VMs on it, and of nothing else: names, and where their other VMs are. So the
 * size of a message goes with what is on the host, not with the installation.
 */
export function hostNetworks(state: NetworkState, hostIds: Iterable<string>): Map<string, HostNetwork> {
  const vmsByHost = Map.groupBy(state.vms, vm => vm.hostId)
  const namesByProject = Map.groupBy(state.names, name => name.projectId)
  const meshed = new Map(state.meshHosts.map(host => [host.hostId, host]))
  const networks = new Map<string, HostNetwork>()
  for (const hostId of hostIds) {
    const projects = new Set((vmsByHost.get(hostId) ?? []).map(vm => vm.projectId))
    const zones = [...projects].sort().map(projectId => zoneOf(projectId, namesByProject.get(projectId) ?? []))
    const own = meshed.get(hostId)
    const peers = own ? peersOf(state, vmsByHost, hostId, projects) : []
    const guests = own?.assigned ? { guests: own.assigned } : {}
    const content = { address: meshAddress(state.prefix, hostId), ...guests, peers, zones }
    const hash = createHash('sha256').update(JSON.stringify(content)).digest('hex').slice(0, 32)
    networks.set(hostId, { version: state.version, hash, ...content })
  }
  return networks
}

function zoneOf(projectId: string, names: readonly NetworkName[]): Zone {
  const sorted = names.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  return { projectId, names: sorted.map(({ name, addresses }) => ({ name, addresses: addresses.toSorted() })) }
}

function peersOf(
  { meshHosts, prefix }: NetworkState,
  vmsByHost: ReadonlyMap<string, readonly PlacedVm[]>,
  hostId: string,
  projects: ReadonlySet<string>,
): MeshPeer[] {
  const others = meshHosts.filter(peer => peer.hostId !== hostId).toSorted((a, b) => (a.hostId < b.hostId ? -1 : 1))
  return others.map(peer => ({
    ...{ hostId: peer.hostId, publicKey: peer.publicKey, endpoint: peer.endpoint },
    address: meshAddress(prefix, peer.hostId),
    ...(peer.ipv4 && isAlone(peer.ipv4, peer.hostId, meshHosts) ? { ipv4: peer.ipv4 } : {}),
    vmAddresses: (vmsByHost.get(peer.hostId) ?? [])
      .filter(vm => projects.has(vm.projectId))
      .map(vm => vm.address)
      .sort(),
  }))
}

/** Two hosts with one network of guests: where a packet to it would go is anybody's guess, so it goes to neither. */
export function isAlone({ guests }: HostIpv4, hostId: string, hosts: readonly MeshHost[]): boolean {
  const own = parseCidr(guests)
  return hosts.every(other => {
    const theirs = other.hostId !== hostId && other.ipv4 ? parseCidr(other.ipv4.guests) : undefined
    return !own || !theirs || !(contains(own, theirs) || contains(theirs, own))
  })
}

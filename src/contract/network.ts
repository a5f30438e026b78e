/**
 * What control tells hosts about networks: the rules of one VM (they travel in its wish, `VmSpec.firewall`), and the
 * host's part of the private networks (`network.put`): whom it reaches over the mesh, and which names there are.
 */
import { type Static, Type } from 'typebox'

export const FirewallRule = Type.Object({
  id: Type.String(),
  direction: Type.Enum(['inbound', 'outbound']),
  /** `any` with ports other than 0 to 65535 means tcp and udp. */
  protocol: Type.Enum(['tcp', 'udp', 'icmp', 'any']),
  portStart: Type.Integer({ minimum: 0, maximum: 65_535 }),
  portEnd: Type.Integer({ minimum: 0, maximum: 65_535 }),
  action: Type.Enum(['allow', 'deny']),
  /** The other side, IPv4 or IPv6; null: everywhere. */
  cidr: Type.Union([Type.String(), Type.Null()]),
})
export type FirewallRule = Static<typeof FirewallRule>

/** A VM's whole rule set, in the order it applies; the first that matches decides. */
export const FirewallSpec = Type.Object({
  /** Grows with every change of the app's rules. */
  version: Type.Integer({ minimum: 0 }),
  rules: Type.Array(FirewallRule),
})
export type FirewallSpec = Static<typeof FirewallSpec>

/**
 * What the host has of it. `unenforced`: it cannot filter this VM's packets, `detail` says why and what holds instead.
 * `healed`: how often the host's rules were found to differ from this set, and were put right.
 */
export const FirewallObserved = Type.Object({
  version: Type.Integer(),
  state: Type.Enum(['applied', 'unenforced', 'failed']),
  detail: Type.Union([Type.String(), Type.Null()]),
  healed: Type.Integer(),
})
export type FirewallObserved = Static<typeof FirewallObserved>

/** What agents take their guests' addresses from, a /20 each, until control gives their host others (`HostNetwork.guests`). */
export const firstGuests = '10.213.0.0/16'

/** The IPv4 side of a host, which is for gateways only: guests talk to each other over IPv6. */
export const HostIpv4 = Type.Object({
  /** The network of its guests, CIDR; no other host of the mesh has the same. */
  guests: Type.String(),
  /** Where its own gateway's packets come from. */
  gateway: Type.String(),
})
export type HostIpv4 = Static<typeof HostIpv4>

/** Another host of the mesh, and the VMs that are reached through it. */
export const MeshPeer = Type.Object({
  hostId: Type.String(),
  publicKey: Type.String(),
  /** `host:port`, UDP. */
  endpoint: Type.String(),
  /** The host's own address in the mesh. */
  address: Type.String(),
  /** Addresses of its VMs that this host's VMs may talk to. */
  vmAddresses: Type.Array(Type.String()),
  ipv4: Type.Optional(HostIpv4),
})
export type MeshPeer = Static<typeof MeshPeer>

/** Names of one project's private network, without `.internal`. */
export const Zone = Type.Object({
  projectId: Type.String(),
  names: Type.Array(Type.Object({ name: Type.String(), addresses: Type.Array(Type.String()) })),
})
export type Zone = Static<typeof Zone>

/** `network.put`: a full state; one with a smaller version than the host has seen is refused with `stale_version`. */
export const HostNetwork = Type.Object({
  version: Type.Integer({ minimum: 1 }),
  /** Of the content: what beats answer with, so that control sees whether the host has it. */
  hash: Type.String(),
  /** This host's own address in the mesh. */
  address: Type.String(),
  /**
   * IPv4 /20 (CIDR) for its guests that no other host has. A host takes it as soon as it has no guest with another address,
   * unless its own settings name a network.
   */
  guests: Type.Optional(Type.String()),
  peers: Type.Array(MeshPeer),
  zones: Type.Array(Zone),
})
export type HostNetwork = Static<typeof HostNetwork>

/** One peer as a host measures it. */
export const PeerObserved = Type.Object({
  hostId: Type.String(),
  lastHandshakeAtMs: Type.Union([Type.Number(), Type.Null()]),
  rxBytes: Type.Integer(),
  txBytes: Type.Integer(),
  /** Round trip of the newest probe; null: none of the last three seconds was answered. */
  latencyMs: Type.Union([Type.Number(), Type.Null()]),
})
export type PeerObserved = Static<typeof PeerObserved>

/** Part of a beat: what of `network.put` the host has, and its side of the mesh. */
export const NetworkObserved = Type.Object({
  /** `HostNetwork.hash` of what is applied; empty before the first. */
  hash: Type.String(),
  mesh: Type.Union([
    Type.Null(),
    Type.Object({
      publicKey: Type.String(),
      endpoint: Type.String(),
      peers: Type.Array(PeerObserved),
      ipv4: Type.Optional(HostIpv4),
    }),
  ]),
  /** Why the mesh of this host does not work; null when it does, or is off. */
  error: Type.Union([Type.String(), Type.Null()]),
})
export type NetworkObserved = Static<typeof NetworkObserved>

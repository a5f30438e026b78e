/**
 * Network configuration that control sends to hosts: the rules of one VM (part of its desired state,
 * `VmSpec.firewall`), and the host's part of the private networks (`network.put`): its mesh peers and DNS names.
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
  /** Remote address range, IPv4 or IPv6; null: any. */
  cidr: Type.Union([Type.String(), Type.Null()]),
})
export type FirewallRule = Static<typeof FirewallRule>

/** The complete rule set of a VM in order; the first matching rule decides. */
export const FirewallSpec = Type.Object({
  /** Increases with every change of the app's rules. */
  version: Type.Integer({ minimum: 0 }),
  rules: Type.Array(FirewallRule),
  /** Ports of TCP services, which gateways may reach in addition to the app's port. */
  ports: Type.Optional(Type.Array(Type.Integer({ minimum: 1, maximum: 65_535 }))),
})
export type FirewallSpec = Static<typeof FirewallSpec>

/**
 * State of the rule set on the host. `unenforced`: the host cannot filter this VM's packets; `detail` contains the
 * reason and the effect. `healed`: how often the host found its rules changed and repaired them.
 */
export const FirewallObserved = Type.Object({
  version: Type.Integer(),
  state: Type.Enum(['applied', 'unenforced', 'failed']),
  detail: Type.Union([Type.String(), Type.Null()]),
  healed: Type.Integer(),
})
export type FirewallObserved = Static<typeof FirewallObserved>

/**
 * Default pool of guest addresses, a /20 per agent, until control assigns the host a network (`HostNetwork.guests`).
 */
export const firstGuests = '10.213.0.0/16'

/** IPv4 addresses of a host, for gateways only: guests communicate with each other over IPv6. */
export const HostIpv4 = Type.Object({
  /** Network of the host's guests, CIDR, unique in the mesh. */
  guests: Type.String(),
  /** Source address of packets from the host's own gateway. */
  gateway: Type.String(),
})
export type HostIpv4 = Static<typeof HostIpv4>

/** Another host of the mesh, and the VMs reachable through it. */
export const MeshPeer = Type.Object({
  hostId: Type.String(),
  publicKey: Type.String(),
  /** `host:port`, UDP. */
  endpoint: Type.String(),
  /** The peer's own address in the mesh. */
  address: Type.String(),
  /** Addresses of the peer's VMs that this host's VMs may communicate with. */
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

/** `network.put`: a complete state. The host refuses a smaller version than its newest one with `stale_version`. */
export const HostNetwork = Type.Object({
  version: Type.Integer({ minimum: 1 }),
  /** Hash of the content. Heartbeats report it, so that control detects a host with an outdated network. */
  hash: Type.String(),
  /** This host's own address in the mesh. */
  address: Type.String(),
  /**
   * IPv4 /20 (CIDR) for the host's guests, unique in the mesh. A host adopts it as soon as it has no guest with another
   * address, unless its own settings name a network.
   */
  guests: Type.Optional(Type.String()),
  peers: Type.Array(MeshPeer),
  zones: Type.Array(Zone),
})
export type HostNetwork = Static<typeof HostNetwork>

/** Measurements of one peer by a host. */
export const PeerObserved = Type.Object({
  hostId: Type.String(),
  lastHandshakeAtMs: Type.Union([Type.Number(), Type.Null()]),
  rxBytes: Type.Integer(),
  txBytes: Type.Integer(),
  /** Round trip of the newest probe; null: no probe of the last three seconds was answered. */
  latencyMs: Type.Union([Type.Number(), Type.Null()]),
})
export type PeerObserved = Static<typeof PeerObserved>

/** Part of a heartbeat: the network configuration that the host has applied, and the state of its mesh. */
export const NetworkObserved = Type.Object({
  /** `HostNetwork.hash` of the applied configuration; empty before the first. */
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
  /** Why the host's mesh does not work; null if it works or is off. */
  error: Type.Union([Type.String(), Type.Null()]),
})
export type NetworkObserved = Static<typeof NetworkObserved>

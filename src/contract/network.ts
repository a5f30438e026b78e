/**
 * Network configuration that control sends to hosts: the rules of one VM (part of its desired state,
 * `VmSpec.firewall`), and the host's part of the private networks (`network.put`): its mesh peers and DNS names.
 */
import { type Static, Type } from 'typebox'

export const FirewallRule = Type.Object({
  id: Type.String(),
  direction: Type.Enum(['inbound', 'outbound']),
  /** Protocol to which the rule applies. `any` with ports other than 0 to 65535 means TCP and UDP. */
  protocol: Type.Enum(['tcp', 'udp', 'icmp', 'any']),
  portStart: Type.Integer({ minimum: 0, maximum: 65_535 }),
  portEnd: Type.Integer({ minimum: 0, maximum: 65_535 }),
  action: Type.Enum(['allow', 'deny']),
  /** Remote addresses to which the rule applies, as an IPv4 or IPv6 network; null: all. */
  cidr: Type.Union([Type.String(), Type.Null()]),
})
export type FirewallRule = Static<typeof FirewallRule>

/** The complete rule set of a VM in order; the first matching rule decides. */
export const FirewallSpec = Type.Object({
  /** Version of the rules, which increases with every change. */
  version: Type.Integer({ minimum: 0 }),
  rules: Type.Array(FirewallRule),
  /** Ports of the app's TCP services, which gateways may reach in addition to the app's HTTP port. */
  ports: Type.Optional(Type.Array(Type.Integer({ minimum: 1, maximum: 65_535 }))),
})
export type FirewallSpec = Static<typeof FirewallSpec>

/**
 * State of a VM's firewall rules on its host. `unenforced`: the host cannot filter this VM's packets; `detail` contains
 * the reason and the effect. `healed`: how often the host found its rules changed and repaired them.
 */
export const FirewallObserved = Type.Object({
  version: Type.Integer(),
  state: Type.Enum(['applied', 'unenforced', 'failed']),
  detail: Type.Union([Type.String(), Type.Null()]),
  healed: Type.Integer(),
})
export type FirewallObserved = Static<typeof FirewallObserved>

/**
 * Network from which agents take their guests' addresses, a /20 each, until control assigns the host a network
 * (`HostNetwork.guests`).
 */
export const firstGuests = '10.213.0.0/16'

/** IPv4 addresses of a host, for gateways only: guests communicate with each other over IPv6. */
export const HostIpv4 = Type.Object({
  /** Network of the host's guests, as a CIDR; unique in the mesh. */
  guests: Type.String(),
  /** Source address of packets from the host's own gateway. */
  gateway: Type.String(),
})
export type HostIpv4 = Static<typeof HostIpv4>

/** Another host of the mesh, and the VMs reachable through it. */
export const MeshPeer = Type.Object({
  hostId: Type.String(),
  publicKey: Type.String(),
  /** WireGuard endpoint of the peer: `host:port`, UDP. */
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

/**
 * Request of `network.put`: the complete network configuration of a host. The host refuses a lower version than its
 * newest one with `stale_version`.
 */
export const HostNetwork = Type.Object({
  version: Type.Integer({ minimum: 1 }),
  /** Hash of the configuration. Heartbeats report it, so that control detects a host with an outdated network. */
  hash: Type.String(),
  /** Address of this host in the mesh. */
  address: Type.String(),
  /**
   * IPv4 network (CIDR, /20) for the host's guests, unique in the mesh. A host adopts it as soon as no guest has an
   * address of another network, unless the host's own settings name a network.
   */
  guests: Type.Optional(Type.String()),
  peers: Type.Array(MeshPeer),
  zones: Type.Array(Zone),
})
export type HostNetwork = Static<typeof HostNetwork>

/** A host's measurements of the connection to another host of the mesh. */
export const PeerObserved = Type.Object({
  hostId: Type.String(),
  lastHandshakeAtMs: Type.Union([Type.Number(), Type.Null()]),
  rxBytes: Type.Integer(),
  txBytes: Type.Integer(),
  /** Round-trip time of the newest probe; null: no probe of the last three seconds was answered. */
  latencyMs: Type.Union([Type.Number(), Type.Null()]),
})
export type PeerObserved = Static<typeof PeerObserved>

/** Part of a heartbeat: the network configuration that the host has applied, and the state of its mesh. */
export const NetworkObserved = Type.Object({
  /** The `hash` of the applied `HostNetwork`; empty before the first one. */
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
  /** Why the mesh does not work on this host; null if it works or is turned off. */
  error: Type.Union([Type.String(), Type.Null()]),
})
export type NetworkObserved = Static<typeof NetworkObserved>

/** Hosts: what one offers, and its beats. */
import { type Static, Type } from 'typebox'
import { NetworkObserved } from '../network.ts'
import { HypervisorName, VmObserved, VmStats } from './vm.ts'

/** What a driver can do on this host; what it cannot is answered 409 `unsupported_by_hypervisor`. */
export const Capabilities = Type.Object({
  pause: Type.Boolean(),
  snapshot: Type.Boolean(),
  hotplugDisk: Type.Boolean(),
  balloon: Type.Boolean(),
  migrate: Type.Enum(['none', 'live', 'stop-and-copy']),
})
export type Capabilities = Static<typeof Capabilities>

/**
 * What a VM may need of its hypervisor on this host. `raw-drives`: shows files of the host to the guest (builds).
 * `private-network`: reaches other VMs, and its app's rules hold. `kept-volumes`: snapshots of VMs that have volumes.
 * `moved-volumes`: a VM that moves while it runs takes its volumes along. `paused-moves`: one that is paused moves, too, with
 * its memory. `moved-snapshots`: snapshots of VMs go to another host and come from one. An agent may offer what this
 * program does not know: see tolerant.ts.
 */
export const hypervisorFeatures = [
  ...(['raw-drives', 'volumes', 'encrypted-volumes', 'private-network', 'kept-volumes', 'moved-volumes'] as const),
  ...(['paused-moves', 'moved-snapshots'] as const),
] as const
export type HypervisorFeature = (typeof hypervisorFeatures)[number]

export const HypervisorOffer = Type.Object({
  name: HypervisorName,
  available: Type.Boolean(),
  /** Not known yet: the agent has just started and is finding out. */
  probing: Type.Optional(Type.Boolean()),
  /** Why it is not available, or how it runs (`kvm`, `tcg`). */
  detail: Type.String(),
  capabilities: Capabilities,
  /** Absent: an agent that does not tell; all are taken for granted. */
  features: Type.Optional(Type.Array(Type.String())),
  /** `SnapshotObserved.madeBy` of a snapshot that is made here now: one of another does not go on here. */
  snapshotKind: Type.Optional(Type.String()),
})
export type HypervisorOffer = Static<typeof HypervisorOffer>

/** Undefined: an agent that does not tell what it offers. */
export const offersFeature = (
  { features }: Pick<HypervisorOffer, 'features'>,
  feature: HypervisorFeature,
): boolean | undefined => features?.includes(feature)

/** A place for volumes on a host, as its beats tell. */
export const PoolOffer = Type.Object({
  name: Type.String(),
  /** What it is made of: `dir`, `lvm-thin`, `rbd`, ... */
  kind: Type.String(),
  /** Every host with the pool of this name reaches the same volumes. */
  shared: Type.Boolean(),
  /** Rounded down, so that beats of a quiet host stay equal. */
  freeBytes: Type.Integer(),
  encrypted: Type.Boolean(),
})
export type PoolOffer = Static<typeof PoolOffer>

/** Published on `host.<id>.out.beat` every second. `vms` (all of them) comes with the first beat and every 15th. */
export const HostHeartbeat = Type.Object({
  hostId: Type.String(),
  name: Type.String(),
  /** New for every start of the agent. */
  incarnation: Type.String(),
  version: Type.String(),
  arch: Type.String(),
  vcpus: Type.Integer(),
  memoryMib: Type.Integer(),
  diskMib: Type.Integer(),
  hypervisors: Type.Array(HypervisorOffer),
  /** How guests are connected: `tap` (root), `user` (QEMU user networking), `fake`. */
  network: Type.String(),
  vms: Type.Union([Type.Array(VmObserved), Type.Null()]),
  stats: Type.Array(VmStats),
  pools: Type.Optional(Type.Array(PoolOffer)),
  privateNetwork: Type.Optional(NetworkObserved),
  /** Images of database engines in the host's image directory, such as `postgres:15`. */
  databaseImages: Type.Optional(Type.Array(Type.String())),
})
export type HostHeartbeat = Static<typeof HostHeartbeat>

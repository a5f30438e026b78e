/** Hosts: their offers and heartbeats. */
import { type Static, Type } from 'typebox'
import { labelNamePattern, labelValuePattern } from '../../lib/labels.ts'
import { NetworkObserved } from '../network.ts'
import { HypervisorName, VmObserved, VmStats } from './vm.ts'

/** Capabilities of a driver on this host. Requests that need a missing one get 409 `unsupported_by_hypervisor`. */
export const Capabilities = Type.Object({
  pause: Type.Boolean(),
  snapshot: Type.Boolean(),
  hotplugDisk: Type.Boolean(),
  balloon: Type.Boolean(),
  migrate: Type.Enum(['none', 'live', 'stop-and-copy']),
})
export type Capabilities = Static<typeof Capabilities>

/**
 * Features that a VM may need of its hypervisor on this host. `raw-drives`: passes files of the host to the guest
 * (builds). `private-network`: the VM reaches other VMs, and its app's rules are enforced. `kept-volumes`: snapshots of
 * VMs with volumes. `moved-volumes`: a VM that migrates while running takes its volumes along. `paused-moves`: a paused
 * VM can migrate with its memory. `moved-snapshots`: VM snapshots can be copied to and from other hosts. An agent may
 * offer features that this program does not know: see tolerant.ts.
 */
export const hypervisorFeatures = [
  ...(['raw-drives', 'volumes', 'encrypted-volumes', 'private-network', 'kept-volumes', 'moved-volumes'] as const),
  ...(['paused-moves', 'moved-snapshots'] as const),
] as const
export type HypervisorFeature = (typeof hypervisorFeatures)[number]

export const HypervisorOffer = Type.Object({
  name: HypervisorName,
  available: Type.Boolean(),
  /** The availability is not known yet: the agent has just started and is still probing the hypervisor. */
  probing: Type.Optional(Type.Boolean()),
  /** Why the hypervisor is not available, or how it runs (`kvm`, `tcg`). */
  detail: Type.String(),
  /** Guests run on an emulated processor, an order of magnitude slower: chosen only if nothing else is offered. */
  emulated: Type.Optional(Type.Boolean()),
  capabilities: Capabilities,
  /** Absent: an older agent that does not report features; all are assumed. */
  features: Type.Optional(Type.Array(Type.String())),
  /**
   * `SnapshotObserved.madeBy` of a snapshot that this host would take now. The host can start only snapshots with the
   * same value.
   */
  snapshotKind: Type.Optional(Type.String()),
})
export type HypervisorOffer = Static<typeof HypervisorOffer>

/** Whether the hypervisor has the feature; undefined if the agent does not report features. */
export const offersFeature = (
  { features }: Pick<HypervisorOffer, 'features'>,
  feature: HypervisorFeature,
): boolean | undefined => features?.includes(feature)

/** A pool for volumes on a host, as reported in its heartbeats. */
export const PoolOffer = Type.Object({
  name: Type.String(),
  /** Storage type: `dir`, `lvm-thin`, `rbd`, ... */
  kind: Type.String(),
  /** Every host with a pool of this name has access to the same volumes. */
  shared: Type.Boolean(),
  /** Rounded down, so that the heartbeats of an idle host do not change. */
  freeBytes: Type.Integer(),
  encrypted: Type.Boolean(),
})
export type PoolOffer = Static<typeof PoolOffer>

/**
 * Published on `host.<id>.out.beat` every second. `vms` (all of them) is included in the first heartbeat and every
 * 15th.
 */
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
  /** Images of database engines in the host's image directory, e.g. `postgres:15`. */
  databaseImages: Type.Optional(Type.Array(Type.String())),
  /** Labels that its operator has configured; absent: none, or an older agent. */
  labels: Type.Optional(
    Type.Record(Type.String({ pattern: labelNamePattern }), Type.String({ pattern: labelValuePattern })),
  ),
})
export type HostHeartbeat = Static<typeof HostHeartbeat>

/** Messages about hosts: what they offer, and their heartbeats. */
import { type Static, Type } from 'typebox'
import { labelNamePattern, labelValuePattern } from '../../lib/labels.ts'
import { NetworkObserved } from '../network.ts'
import { HypervisorName, VmObserved, VmStats } from './vm.ts'

/** Capabilities of a hypervisor on this host. Requests that need a missing one get 409 `unsupported_by_hypervisor`. */
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
  /** Whether the availability is not known yet, because the agent has just started and still probes the hypervisor. */
  probing: Type.Optional(Type.Boolean()),
  /** Why the hypervisor is not available, or how it runs (`kvm`, `tcg`). */
  detail: Type.String(),
  /**
   * Whether guests run on an emulated processor, which is about ten times slower. Such a hypervisor is chosen only if
   * the host offers no other.
   */
  emulated: Type.Optional(Type.Boolean()),
  capabilities: Capabilities,
  /**
   * Features of the hypervisor on this host (`hypervisorFeatures`). Absent: an older agent, which is assumed to have
   * all of them.
   */
  features: Type.Optional(Type.Array(Type.String())),
  /**
   * The `madeBy` that a snapshot taken on this host now would have. The host can only start from snapshots with the
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
  /** Storage type of the pool: `dir`, `lvm-thin`, `rbd`, ... */
  kind: Type.String(),
  /** Whether every host that has a pool of this name can access the volumes in it. */
  shared: Type.Boolean(),
  /** Free space in the pool, rounded down so that the heartbeats of an idle host do not change. */
  freeBytes: Type.Integer(),
  encrypted: Type.Boolean(),
})
export type PoolOffer = Static<typeof PoolOffer>

/**
 * Heartbeat of a host, published on `host.<id>.out.beat` every second. The first heartbeat and every 15th include
 * `vms`, with all VMs.
 */
export const HostHeartbeat = Type.Object({
  hostId: Type.String(),
  name: Type.String(),
  /** Id that an agent generates at each start. */
  incarnation: Type.String(),
  version: Type.String(),
  arch: Type.String(),
  vcpus: Type.Integer(),
  memoryMib: Type.Integer(),
  diskMib: Type.Integer(),
  hypervisors: Type.Array(HypervisorOffer),
  /** How guests are connected to the network: `tap` (needs root), `user` (QEMU user networking), `fake` (simulated). */
  network: Type.String(),
  vms: Type.Union([Type.Array(VmObserved), Type.Null()]),
  stats: Type.Array(VmStats),
  pools: Type.Optional(Type.Array(PoolOffer)),
  privateNetwork: Type.Optional(NetworkObserved),
  /** Images of database engines in the host's image directory, e.g. `postgres:15`. */
  databaseImages: Type.Optional(Type.Array(Type.String())),
  /** Labels that the host's operator has configured; absent: none, or an older agent. */
  labels: Type.Optional(
    Type.Record(Type.String({ pattern: labelNamePattern }), Type.String({ pattern: labelValuePattern })),
  ),
})
export type HostHeartbeat = Static<typeof HostHeartbeat>

/** Messages about snapshots of VMs, about volumes, and about their transfer to another host. */
import { type Static, Type } from 'typebox'

/**
 * State of the transfer of a volume or a VM snapshot, as reported by one of its two hosts. `copied`: everything is sent
 * except writes that are still being made. `complete`: the target has verified the bytes.
 */
export const Transfer = Type.Object({
  transferId: Type.String(),
  role: Type.Enum(['source', 'target']),
  phase: Type.Enum(['preparing', 'listening', 'copying', 'copied', 'complete', 'failed']),
  /** Address on which the target listens; empty if the volume is sent with a migrating VM. */
  uri: Type.Union([Type.String(), Type.Null()]),
  percent: Type.Number({ minimum: 0, maximum: 100 }),
  transferredBytes: Type.Integer(),
  totalBytes: Type.Integer(),
  error: Type.Union([Type.String(), Type.Null()]),
})
export type Transfer = Static<typeof Transfer>

/**
 * Request of `snapshot.put`: desired state of a VM snapshot on this host, independent of the VM, because the snapshot
 * outlives it. `present` takes it once (pause, save memory and scratch disk together, resume); the VM must be running
 * or paused. `absent` removes it as soon as no VM that was started from it needs its files.
 */
export const SnapshotPut = Type.Object({
  snapshotId: Type.String(),
  vmId: Type.String(),
  generation: Type.Integer({ minimum: 1 }),
  want: Type.Enum(['present', 'absent']),
  /**
   * What a VM with volumes does after the snapshot. `go-on` (default): the snapshot includes a copy of each volume.
   * `stay`: no copies are made, and the VM does not run again while the snapshot exists, so its volumes remain
   * unchanged.
   */
  afterwards: Type.Optional(Type.Enum(['go-on', 'stay'])),
  /**
   * Set if the snapshot was already taken. A host that has lost it reports the loss instead of taking another snapshot.
   */
  taken: Type.Optional(Type.Literal(true)),
  /**
   * The snapshot is copied from another host: this host takes none, but reserves space and reports the address on which
   * it listens.
   */
  incoming: Type.Optional(
    Type.Object({ transferId: Type.String(), sizeBytes: Type.Integer({ minimum: 0 }), madeBy: Type.String() }),
  ),
  /** The transfer with this id is complete, so its content is valid. Before, the content must not be used. */
  arrived: Type.Optional(Type.Object({ transferId: Type.String() })),
  /**
   * Copy the snapshot to another host. The copies of volumes in the snapshot are transferred together with the volumes.
   */
  outgoing: Type.Optional(Type.Object({ transferId: Type.String(), uri: Type.String() })),
})
export type SnapshotPut = Static<typeof SnapshotPut>

/** A volume that was attached to the VM when its snapshot was taken. */
export const SnapshotDisk = Type.Object({
  volumeId: Type.String(),
  /** Generation of the attachment when the snapshot was taken. */
  generation: Type.Integer(),
  mountPoint: Type.String(),
  readOnly: Type.Boolean(),
  /** Whether the snapshot includes a copy of the volume. */
  copied: Type.Boolean(),
})
export type SnapshotDisk = Static<typeof SnapshotDisk>

/**
 * The state of a VM snapshot: the reply to `snapshot.put` and `snapshot.get`, also published on
 * `subjects.snapshot(...)` on every change.
 */
export const SnapshotObserved = Type.Object({
  snapshotId: Type.String(),
  vmId: Type.String(),
  generation: Type.Integer(),
  state: Type.Enum(['creating', 'ready', 'failed', 'removing', 'absent']),
  sizeBytes: Type.Integer(),
  /** Checksum of the snapshot's memory, device state and disk; verified before each start from the snapshot. */
  sha256: Type.Union([Type.String(), Type.Null()]),
  /** A host can start from the snapshot only if these match: VMM and its version, CPU model, architecture. */
  madeBy: Type.Union([Type.String(), Type.Null()]),
  /** Time for which the guest was paused while the snapshot was taken, in ms. */
  pauseMs: Type.Union([Type.Number(), Type.Null()]),
  error: Type.Union([Type.String(), Type.Null()]),
  /** Volumes that were attached to the VM; absent: none. */
  disks: Type.Optional(Type.Array(SnapshotDisk)),
  transfer: Type.Optional(Transfer),
})
export type SnapshotObserved = Static<typeof SnapshotObserved>

/**
 * Request of `volume.put`: complete desired state of a volume on this host, independent of VMs, because the volume
 * outlives them. A new volume is empty or has the content of a snapshot (`from`); `restore` rolls it back to one of its
 * own snapshots, once per `count`, while it is attached to no VM. A larger `sizeMib` grows it, even while attached; it
 * never shrinks. `absent` removes it with its snapshots as soon as it is detached.
 */
export const VolumePut = Type.Object({
  volumeId: Type.String(),
  /**
   * The host refuses a generation below the newest one that it has received, with code `stale_generation`. The same
   * generation is an idempotent repeat.
   */
  generation: Type.Integer({ minimum: 1 }),
  want: Type.Enum(['present', 'absent']),
  pool: Type.String(),
  sizeMib: Type.Integer({ minimum: 1 }),
  from: Type.Optional(Type.Object({ volumeId: Type.String(), snapshotId: Type.String() })),
  /** Image whose directory `/usr/share/mote/volume` becomes the content of a new volume. */
  image: Type.Optional(Type.String()),
  restore: Type.Optional(Type.Object({ snapshotId: Type.String(), count: Type.Integer({ minimum: 1 }) })),
  /** Key of the volume in an encrypted pool, in base64. The host keeps it in memory only. */
  key: Type.Optional(Type.String()),
  /**
   * The volume is copied from another host: this host reserves space, reports the address it listens on, and creates no
   * content of its own. With `vmId`, that VM brings the volume along as it migrates to this host. The volume is
   * attached to no VM until a later desired state contains `arrived`.
   */
  incoming: Type.Optional(Type.Object({ transferId: Type.String(), vmId: Type.Optional(Type.String()) })),
  /** The transfer with this id is complete, so its content is valid. Before, the content must not be used. */
  arrived: Type.Optional(Type.Object({ transferId: Type.String() })),
  /**
   * Copy the volume, with these snapshots (oldest first), to another host. A VM may keep using the volume until `final`
   * is set. From then on, the volume is not attached again, and the remaining changes are sent once it is detached.
   */
  outgoing: Type.Optional(
    Type.Object({
      transferId: Type.String(),
      uri: Type.String(),
      final: Type.Boolean(),
      snapshots: Type.Array(Type.String()),
    }),
  ),
})
export type VolumePut = Static<typeof VolumePut>

/**
 * The state of a volume: the reply to `volume.put` and `volume.get`, also published on `subjects.volume(...)` on every
 * change.
 */
export const VolumeObserved = Type.Object({
  volumeId: Type.String(),
  generation: Type.Integer(),
  state: Type.Enum(['creating', 'ready', 'restoring', 'failed', 'removing', 'absent']),
  /** The `count` of the last completed `restore`. */
  restored: Type.Integer(),
  /** Current size of the volume; 0 while it is being created. */
  sizeMib: Type.Optional(Type.Integer()),
  error: Type.Union([Type.String(), Type.Null()]),
  transfer: Type.Optional(Transfer),
})
export type VolumeObserved = Static<typeof VolumeObserved>

/**
 * Request of `volume.snapshot`: takes a snapshot of a volume on this host, once. It is crash-consistent even while a VM
 * writes.
 */
export const VolumeSnapshotPut = Type.Object({
  snapshotId: Type.String(),
  volumeId: Type.String(),
  pool: Type.String(),
  generation: Type.Integer({ minimum: 1 }),
  want: Type.Enum(['present', 'absent']),
})
export type VolumeSnapshotPut = Static<typeof VolumeSnapshotPut>

/**
 * The state of a volume snapshot: the reply to `volume.snapshot`, also published on `subjects.volumeSnapshot(...)` on
 * every change.
 */
export const VolumeSnapshotObserved = Type.Object({
  snapshotId: Type.String(),
  volumeId: Type.String(),
  generation: Type.Integer(),
  state: Type.Enum(['creating', 'ready', 'failed', 'removing', 'absent']),
  sizeBytes: Type.Integer(),
  /** Time for which the VM with the volume was paused, in ms; 0 if no VM had the volume. */
  pauseMs: Type.Union([Type.Number(), Type.Null()]),
  error: Type.Union([Type.String(), Type.Null()]),
})
export type VolumeSnapshotObserved = Static<typeof VolumeSnapshotObserved>

/** Space that volumes actually occupy, measured by their host and published on `subjects.volumeUsage(...)`. */
export const VolumeUsages = Type.Object({
  volumes: Type.Array(
    Type.Object({ volumeId: Type.String(), usedBytes: Type.Integer(), snapshotBytes: Type.Integer() }),
  ),
})
export type VolumeUsages = Static<typeof VolumeUsages>

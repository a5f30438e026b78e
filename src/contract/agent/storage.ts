/** Snapshots of VMs, volumes, and the transfer of either to another host. */
import { type Static, Type } from 'typebox'

/**
 * Transfer of a volume or a VM snapshot, as reported by one of its two hosts. `copied`: everything is sent except
 * writes that are still being made. `complete`: the target has verified the bytes.
 */
export const Transfer = Type.Object({
  transferId: Type.String(),
  role: Type.Enum(['source', 'target']),
  phase: Type.Enum(['preparing', 'listening', 'copying', 'copied', 'complete', 'failed']),
  /** Address that the target listens on; empty if a migrating VM brings the volume along. */
  uri: Type.Union([Type.String(), Type.Null()]),
  percent: Type.Number({ minimum: 0, maximum: 100 }),
  transferredBytes: Type.Integer(),
  totalBytes: Type.Integer(),
  error: Type.Union([Type.String(), Type.Null()]),
})
export type Transfer = Static<typeof Transfer>

/**
 * `snapshot.put`: desired state of a VM snapshot on this host, independent of the VM, because the snapshot outlives it.
 * `present` takes it once (pause, save memory and scratch disk together, resume); the VM must be running or paused.
 * `absent` removes it as soon as no VM that was started from it needs its files.
 */
export const SnapshotPut = Type.Object({
  snapshotId: Type.String(),
  vmId: Type.String(),
  generation: Type.Integer({ minimum: 1 }),
  want: Type.Enum(['present', 'absent']),
  /**
   * State of a VM with volumes after the snapshot. `go-on` (default): the snapshot includes a copy of each volume.
   * `stay`: no copies are made, and the VM does not run again while the snapshot exists, so its volumes remain
   * unchanged.
   */
  afterwards: Type.Optional(Type.Enum(['go-on', 'stay'])),
  /** The snapshot was already taken: a host that has lost it reports that and does not take another one. */
  taken: Type.Optional(Type.Literal(true)),
  /**
   * The snapshot comes from another host: this host does not take one, but reserves space and reports the address it
   * listens on.
   */
  incoming: Type.Optional(
    Type.Object({ transferId: Type.String(), sizeBytes: Type.Integer({ minimum: 0 }), madeBy: Type.String() }),
  ),
  /** Makes the content received by this transfer valid. Without it the content must not be used. */
  arrived: Type.Optional(Type.Object({ transferId: Type.String() })),
  /** Copy the snapshot to another host. Its copies of volumes are transferred together with the volumes. */
  outgoing: Type.Optional(Type.Object({ transferId: Type.String(), uri: Type.String() })),
})
export type SnapshotPut = Static<typeof SnapshotPut>

/** A volume that was attached to the VM when its snapshot was taken. */
export const SnapshotDisk = Type.Object({
  volumeId: Type.String(),
  /** Generation of the attachment at that time. */
  generation: Type.Integer(),
  mountPoint: Type.String(),
  readOnly: Type.Boolean(),
  /** The snapshot includes the volume's content at that time. */
  copied: Type.Boolean(),
})
export type SnapshotDisk = Static<typeof SnapshotDisk>

/** Reply to `snapshot.put` and `snapshot.get`. Also published on `subjects.snapshot(...)` on every change. */
export const SnapshotObserved = Type.Object({
  snapshotId: Type.String(),
  vmId: Type.String(),
  generation: Type.Integer(),
  state: Type.Enum(['creating', 'ready', 'failed', 'removing', 'absent']),
  sizeBytes: Type.Integer(),
  /** Checksum over memory, device state and disk; verified before each start from the snapshot. */
  sha256: Type.Union([Type.String(), Type.Null()]),
  /** Properties that must match to start from the snapshot: VMM and version, CPU model, architecture. */
  madeBy: Type.Union([Type.String(), Type.Null()]),
  /** How long the guest was paused. */
  pauseMs: Type.Union([Type.Number(), Type.Null()]),
  error: Type.Union([Type.String(), Type.Null()]),
  /** Absent: the VM had no volumes. */
  disks: Type.Optional(Type.Array(SnapshotDisk)),
  transfer: Type.Optional(Transfer),
})
export type SnapshotObserved = Static<typeof SnapshotObserved>

/**
 * `volume.put`: complete desired state of a volume on this host, independent of VMs, because the volume outlives them.
 * A new volume is empty or has the content of a snapshot (`from`); `restore` rolls it back to one of its own snapshots,
 * once per `count`, while it is attached to no VM. A larger `sizeMib` grows it, even while attached; it never shrinks.
 * `absent` removes it with its snapshots as soon as it is detached.
 */
export const VolumePut = Type.Object({
  volumeId: Type.String(),
  /**
   * Refused with code `stale_generation` if smaller than the newest generation the host has received. Equal: an
   * idempotent repeat.
   */
  generation: Type.Integer({ minimum: 1 }),
  want: Type.Enum(['present', 'absent']),
  pool: Type.String(),
  sizeMib: Type.Integer({ minimum: 1 }),
  from: Type.Optional(Type.Object({ volumeId: Type.String(), snapshotId: Type.String() })),
  /** Initial content of a new volume, from this directory of the image: `/usr/share/mote/volume`. */
  image: Type.Optional(Type.String()),
  restore: Type.Optional(Type.Object({ snapshotId: Type.String(), count: Type.Integer({ minimum: 1 }) })),
  /** Encryption key, as in `DiskSpec`. */
  key: Type.Optional(Type.String()),
  /**
   * The volume comes from another host: this host reserves space, reports the address it listens on, and creates no
   * content of its own. With `vmId`, that VM brings the volume along as it migrates to this host. The volume is
   * attached to no VM until a later desired state contains `arrived`.
   */
  incoming: Type.Optional(Type.Object({ transferId: Type.String(), vmId: Type.Optional(Type.String()) })),
  /** Makes the content received by this transfer valid. Without it the content must not be used. */
  arrived: Type.Optional(Type.Object({ transferId: Type.String() })),
  /**
   * Copy the volume, with these snapshots (oldest first), to another host. A VM may keep using the volume until `final`
   * is set. Then it is not attached again, and the remaining changes are sent once it is detached.
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

/** Reply to `volume.put` and `volume.get`. Also published on `subjects.volume(...)` on every change. */
export const VolumeObserved = Type.Object({
  volumeId: Type.String(),
  generation: Type.Integer(),
  state: Type.Enum(['creating', 'ready', 'restoring', 'failed', 'removing', 'absent']),
  /** `restore.count` of the last completed restore. */
  restored: Type.Integer(),
  /** Current size; 0 while the volume is being created. */
  sizeMib: Type.Optional(Type.Integer()),
  error: Type.Union([Type.String(), Type.Null()]),
  transfer: Type.Optional(Transfer),
})
export type VolumeObserved = Static<typeof VolumeObserved>

/**
 * `volume.snapshot`: a snapshot of a volume on this host, taken once. It is crash-consistent even while a VM writes.
 */
export const VolumeSnapshotPut = Type.Object({
  snapshotId: Type.String(),
  volumeId: Type.String(),
  pool: Type.String(),
  generation: Type.Integer({ minimum: 1 }),
  want: Type.Enum(['present', 'absent']),
})
export type VolumeSnapshotPut = Static<typeof VolumeSnapshotPut>

/** Reply to `volume.snapshot`. Also published on `subjects.volumeSnapshot(...)` on every change. */
export const VolumeSnapshotObserved = Type.Object({
  snapshotId: Type.String(),
  volumeId: Type.String(),
  generation: Type.Integer(),
  state: Type.Enum(['creating', 'ready', 'failed', 'removing', 'absent']),
  sizeBytes: Type.Integer(),
  /** How long the VM with the volume was paused; 0 if the volume is not attached. */
  pauseMs: Type.Union([Type.Number(), Type.Null()]),
  error: Type.Union([Type.String(), Type.Null()]),
})
export type VolumeSnapshotObserved = Static<typeof VolumeSnapshotObserved>

/** Published on `subjects.volumeUsage(...)`: space that volumes actually occupy, measured by their host. */
export const VolumeUsages = Type.Object({
  volumes: Type.Array(
    Type.Object({ volumeId: Type.String(), usedBytes: Type.Integer(), snapshotBytes: Type.Integer() }),
  ),
})
export type VolumeUsages = Static<typeof VolumeUsages>

/** Snapshots of VMs, volumes, and either of them on its way to another host. */
import { type Static, Type } from 'typebox'

/**
 * A volume, or a snapshot of a VM, on its way, as one of the two hosts sees it. `copied`: all that can be sent while somebody writes has been.
 * `complete`: the target has read back the same bytes.
 */
export const Transfer = Type.Object({
  transferId: Type.String(),
  role: Type.Enum(['source', 'target']),
  phase: Type.Enum(['preparing', 'listening', 'copying', 'copied', 'complete', 'failed']),
  /** Where the target listens; empty where a VM brings it. */
  uri: Type.Union([Type.String(), Type.Null()]),
  percent: Type.Number({ minimum: 0, maximum: 100 }),
  transferredBytes: Type.Integer(),
  totalBytes: Type.Integer(),
  error: Type.Union([Type.String(), Type.Null()]),
})
export type Transfer = Static<typeof Transfer>

/**
 * `snapshot.put`: a snapshot of a VM on this host, as a wish of its own, since it outlives the VM. `present` takes it
 * once (pause, memory and scratch disk together, resume); the VM must be running or paused. `absent` removes it, as soon
 * as no VM that was started from it needs its files.
 */
export const SnapshotPut = Type.Object({
  snapshotId: Type.String(),
  vmId: Type.String(),
  generation: Type.Integer({ minimum: 1 }),
  want: Type.Enum(['present', 'absent']),
  /**
   * What becomes of a VM that has volumes. `go-on` (default): the snapshot has a copy of each. `stay`: there are no copies,
   * and the VM is not let run again as long as the snapshot is there, so that its volumes stay as they are.
   */
  afterwards: Type.Optional(Type.Enum(['go-on', 'stay'])),
  /** It was taken before: a host that has lost it says so, and takes nothing in its place. */
  taken: Type.Optional(Type.Literal(true)),
  /** It comes from another host: this one takes nothing of its own, makes room, and tells where it listens. */
  incoming: Type.Optional(
    Type.Object({ transferId: Type.String(), sizeBytes: Type.Integer({ minimum: 0 }), madeBy: Type.String() }),
  ),
  /** What came by this transfer counts from here on; without it there is nothing to count. */
  arrived: Type.Optional(Type.Object({ transferId: Type.String() })),
  /** Another host gets a copy. What it has of volumes goes with these. */
  outgoing: Type.Optional(Type.Object({ transferId: Type.String(), uri: Type.String() })),
})
export type SnapshotPut = Static<typeof SnapshotPut>

/** A volume that a VM had when its snapshot was taken. */
export const SnapshotDisk = Type.Object({
  volumeId: Type.String(),
  /** Of its attachment then. */
  generation: Type.Integer(),
  mountPoint: Type.String(),
  readOnly: Type.Boolean(),
  /** The snapshot has the volume's content of that moment. */
  copied: Type.Boolean(),
})
export type SnapshotDisk = Static<typeof SnapshotDisk>

/** Published on `subjects.snapshot(...)` on every change, and the answer of `snapshot.put` and `snapshot.get`. */
export const SnapshotObserved = Type.Object({
  snapshotId: Type.String(),
  vmId: Type.String(),
  generation: Type.Integer(),
  state: Type.Enum(['creating', 'ready', 'failed', 'removing', 'absent']),
  sizeBytes: Type.Integer(),
  /** Over memory, device state and disk; checked before a start from it. */
  sha256: Type.Union([Type.String(), Type.Null()]),
  /** What a start from it needs to be equal: VMM and version, CPU model, architecture. */
  madeBy: Type.Union([Type.String(), Type.Null()]),
  /** How long the guest stood still. */
  pauseMs: Type.Union([Type.Number(), Type.Null()]),
  error: Type.Union([Type.String(), Type.Null()]),
  /** Absent: the VM had no volumes. */
  disks: Type.Optional(Type.Array(SnapshotDisk)),
  transfer: Type.Optional(Transfer),
})
export type SnapshotObserved = Static<typeof SnapshotObserved>

/**
 * `volume.put`: a volume on this host, as a full wish of its own, since it outlives every VM. It is made empty, or with
 * the content of a snapshot (`from`); `restore` puts it back to a snapshot of its own, once for each `count`, while no VM
 * has it. A larger `sizeMib` than before grows it, also while a VM has it; it never shrinks. `absent` removes it with its
 * snapshots, as soon as no VM has it.
 */
export const VolumePut = Type.Object({
  volumeId: Type.String(),
  /** Refused with code `stale_generation` when smaller than what the host has seen. Equal: an idempotent repeat. */
  generation: Type.Integer({ minimum: 1 }),
  want: Type.Enum(['present', 'absent']),
  pool: Type.String(),
  sizeMib: Type.Integer({ minimum: 1 }),
  from: Type.Optional(Type.Object({ volumeId: Type.String(), snapshotId: Type.String() })),
  /** A new one begins with what this image has for volumes (`/usr/share/mote/volume`). */
  image: Type.Optional(Type.String()),
  restore: Type.Optional(Type.Object({ snapshotId: Type.String(), count: Type.Integer({ minimum: 1 }) })),
  /** As in `DiskSpec`. */
  key: Type.Optional(Type.String()),
  /**
   * It comes from another host: this one makes room, tells where it listens, and makes nothing of its own. With `vmId` that VM
   * brings it as it moves here. No VM has it before a later wish says that it `arrived`.
   */
  incoming: Type.Optional(Type.Object({ transferId: Type.String(), vmId: Type.Optional(Type.String()) })),
  /** What came by this transfer counts from here on; without it there is nothing to count. */
  arrived: Type.Optional(Type.Object({ transferId: Type.String() })),
  /**
   * Another host gets a copy, with these snapshots (oldest first). A VM may go on with it until `final`: from then on nobody
   * gets it any more, and when nobody has it the rest is sent.
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

/** Published on `subjects.volume(...)` on every change, and the answer of `volume.put` and `volume.get`. */
export const VolumeObserved = Type.Object({
  volumeId: Type.String(),
  generation: Type.Integer(),
  state: Type.Enum(['creating', 'ready', 'restoring', 'failed', 'removing', 'absent']),
  /** `restore.count` of the last restore that was done. */
  restored: Type.Integer(),
  /** As large as it is; 0 while it is being made. */
  sizeMib: Type.Optional(Type.Integer()),
  error: Type.Union([Type.String(), Type.Null()]),
  transfer: Type.Optional(Transfer),
})
export type VolumeObserved = Static<typeof VolumeObserved>

/** `volume.snapshot`: a snapshot of a volume on this host; taken once, crash-consistent also while a VM writes. */
export const VolumeSnapshotPut = Type.Object({
  snapshotId: Type.String(),
  volumeId: Type.String(),
  pool: Type.String(),
  generation: Type.Integer({ minimum: 1 }),
  want: Type.Enum(['present', 'absent']),
})
export type VolumeSnapshotPut = Static<typeof VolumeSnapshotPut>

/** Published on `subjects.volumeSnapshot(...)` on every change, and the answer of `volume.snapshot`. */
export const VolumeSnapshotObserved = Type.Object({
  snapshotId: Type.String(),
  volumeId: Type.String(),
  generation: Type.Integer(),
  state: Type.Enum(['creating', 'ready', 'failed', 'removing', 'absent']),
  sizeBytes: Type.Integer(),
  /** How long the VM that has the volume stood still; 0 when none has it. */
  pauseMs: Type.Union([Type.Number(), Type.Null()]),
  error: Type.Union([Type.String(), Type.Null()]),
})
export type VolumeSnapshotObserved = Static<typeof VolumeSnapshotObserved>

/** Published on `subjects.volumeUsage(...)`: what volumes really take, measured by their host. */
export const VolumeUsages = Type.Object({
  volumes: Type.Array(
    Type.Object({ volumeId: Type.String(), usedBytes: Type.Integer(), snapshotBytes: Type.Integer() }),
  ),
})
export type VolumeUsages = Static<typeof VolumeUsages>

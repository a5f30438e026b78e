/**
 * A place that stores volumes: a directory, an LVM thin pool, a ZFS dataset or a Ceph pool. The test `pools.test.ts`
 * runs against every implementation. Only the agent writes to pools.
 */
export interface VolumePool {
  readonly name: string
  /** Kind of the pool, such as `zfs`; part of the host's heartbeat. */
  readonly kind: string
  /** Whether every host with a pool of this name accesses the same volumes. */
  readonly shared: boolean
  /** Whether volumes are LUKS containers, which only some hypervisors can open. */
  readonly encrypted: boolean
  /**
   * Creates the volume with an ext4 file system that is empty or has a directory's content, or with the content of a
   * snapshot. Atomic and idempotent.
   * @param key base64, for encrypted pools
   * @throws StepError `snapshot_missing`, `volume_locked` if the key is missing
   */
  create(volumeId: string, sizeMib: number, from?: SnapshotRef | Content, key?: string): Promise<void>
  /**
   * Opens the volume and returns it as a raw file or block device for a VM. Idempotent.
   * @param generation generation of the attachment; in a shared pool, a writer on another host with a smaller
   * generation is fenced
   * @param access default: `write`; opening with `read` fences no other host
   * @throws StepError `volume_missing`; in a shared pool also `stale_volume_generation`, and `volume_in_use` if
   * `access` is `read` and another host writes to the volume
   */
  open(volumeId: string, generation: number, access?: 'read' | 'write'): Promise<string>
  /** Closes the volume after the last VM of this host detached it. Idempotent. */
  close(volumeId: string): Promise<void>
  /** Removes the volume and its snapshots. Clones of the snapshots are not affected. Idempotent. */
  remove(volumeId: string): Promise<void>
  /**
   * Takes a snapshot of the current content. The caller ensures that nothing writes during the call. Atomic; an
   * existing snapshot is kept.
   */
  snapshot(volumeId: string, snapshotId: string): Promise<void>
  /**
   * Takes a snapshot of a volume that is being written to: `write` copies the content into a file of the volume's size
   * that reads as zeros. Undefined if the pool's own snapshots are instantaneous, or if only the pool can create
   * snapshots.
   */
  snapshotBy?(volumeId: string, snapshotId: string, write: (file: string) => Promise<void>): Promise<void>
  /** Whether `snapshot` copies the whole content, so that `snapshotBy` should be used while a VM runs. */
  copies?(): Promise<boolean>
  /** Removes a snapshot. Idempotent. */
  removeSnapshot(volumeId: string, snapshotId: string): Promise<void>
  /** Replaces the volume's content with that of the snapshot, atomically. The volume must not be open. Idempotent. */
  restore(volumeId: string, snapshotId: string): Promise<void>
  /**
   * Grows the volume to this size, even while a VM has it open. The content is preserved, and a larger volume is not
   * shrunk.
   * @throws StepError `volume_missing`
   */
  grow(volumeId: string, sizeMib: number): Promise<void>
  /**
   * Creates a volume of this many bytes that reads as zeros, to receive content from another host. The caller has
   * removed an earlier volume with this id. Shared pools have neither `blank` nor `readSnapshot`, because every host
   * can access their volumes.
   */
  blank?(volumeId: string, bytes: number): Promise<void>
  /** Calls `read` with a file or device from which the snapshot can be read. @throws StepError `snapshot_missing` */
  readSnapshot?(volumeId: string, snapshotId: string, read: (file: string) => Promise<void>): Promise<void>
  /** Returns the space that the volume and all its snapshots use. */
  usage(volumeId: string): Promise<PoolUsage>
  freeBytes(): Promise<number>
}

export interface SnapshotRef {
  readonly volumeId: string
  readonly snapshotId: string
}

/** A directory whose files, with their owners, a new volume initially contains. */
export interface Content {
  readonly directory: string
}

export interface PoolUsage {
  readonly usedBytes: number
  /**
   * Space that would be freed if all snapshots of the volume were removed. Blocks that several snapshots share count
   * once if the pool reports them.
   */
  readonly snapshotBytes: number
}

/** Checks an id that becomes a part of file or device names. @throws Error for an invalid id */
export function checkedId(id: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(id)) return id
  throw new Error(`invalid id "${id}": only letters, digits, - and _ are allowed`)
}

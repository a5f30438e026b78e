/** Where volumes live. One contract test (`pools.test.ts`) holds every pool to it. Nothing else writes to them. */
export interface VolumePool {
  readonly name: string
  /** What it is made of, for the host's beat. */
  readonly kind: string
  /** Every host with the pool of this name reaches the same volumes. */
  readonly shared: boolean
  /** Volumes are LUKS containers, and only a hypervisor that opens those can have them. */
  readonly encrypted: boolean
  /**
   * Makes the volume: with an ext4 that is empty or has a directory's content, or with the content of a snapshot. Complete
   * or not at all; idempotent.
   * @param key base64, where the pool is encrypted
   * @throws StepError `snapshot_missing`, `volume_locked` without the key
   */
  create(volumeId: string, sizeMib: number, from?: SnapshotRef | Content, key?: string): Promise<void>
  /**
   * The volume as a raw file or block device for a VM. Idempotent.
   * @param generation of the attachment; where several hosts reach it, whoever writes under a smaller one is cut off
   * @param access default: to write. Who reads cuts nobody off
   * @throws StepError `volume_missing`; where several hosts reach it `stale_volume_generation`, and `volume_in_use` to a
   * reader while another host has it to write
   */
  open(volumeId: string, generation: number, access?: 'read' | 'write'): Promise<string>
  /** No VM of this host has it any more. Idempotent. */
  close(volumeId: string): Promise<void>
  /** Removes the volume and its snapshots; clones of them stay. Idempotent. */
  remove(volumeId: string): Promise<void>
  /** Keeps the volume's content of now. Nobody writes meanwhile. Complete or not at all; one that is there stays. */
  snapshot(volumeId: string, snapshotId: string): Promise<void>
  /**
   * As `snapshot`, of a volume that somebody writes to: `write` fills a file of the volume's size that reads as zeros.
   * Absent: the pool's own snapshot is there in no time, or nobody else can make it.
   */
  snapshotBy?(volumeId: string, snapshotId: string, write: (file: string) => Promise<void>): Promise<void>
  /** Whether `snapshot` copies all the volume holds, so that it is `snapshotBy` that shall be used while a VM runs. */
  copies?(): Promise<boolean>
  /** Idempotent. */
  removeSnapshot(volumeId: string, snapshotId: string): Promise<void>
  /** The volume's content is the snapshot's, or what it was: nothing between. Nobody has it open. Idempotent. */
  restore(volumeId: string, snapshotId: string): Promise<void>
  /**
   * Makes the volume that large, also while a VM has it; what it holds stays as it was. One that is not smaller stays.
   * @throws StepError `volume_missing`
   */
  grow(volumeId: string, sizeMib: number): Promise<void>
  /**
   * A volume of so many bytes that reads as zeros, to be filled with the content of another host's. Whoever calls has removed
   * what there was. Absent, as `readSnapshot`: every host reaches the volumes anyway.
   */
  blank?(volumeId: string, bytes: number): Promise<void>
  /** Shows a snapshot as a file or device to read. @throws StepError `snapshot_missing` */
  readSnapshot?(volumeId: string, snapshotId: string, read: (file: string) => Promise<void>): Promise<void>
  /** Bytes that the volume and all its snapshots really take. */
  usage(volumeId: string): Promise<PoolUsage>
  freeBytes(): Promise<number>
}

export interface SnapshotRef {
  readonly volumeId: string
  readonly snapshotId: string
}

/** Files that a new volume begins with, with their owners. */
export interface Content {
  readonly directory: string
}

export interface PoolUsage {
  readonly usedBytes: number
  /** What goes with the snapshots: blocks that they share with the volume or each other count once, where that is known. */
  readonly snapshotBytes: number
}

/** Ids become names of files and devices. @throws Error for anything else */
export function checkedId(id: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(id)) return id
  throw new Error('an id has letters, digits, - and _ only')
}

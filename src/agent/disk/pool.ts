/** Where volumes live on this host. One contract test holds every pool to it. */
export interface VolumePool {
  readonly name: string
  /** The volume as a raw file or block device, made with an empty ext4 when it is not there yet. Idempotent. */
  ensure(volumeId: string, sizeMib: number): Promise<string>
  /** Removes the volume and its snapshots. Idempotent. */
  remove(volumeId: string): Promise<void>
  /** Keeps the volume's content of now. The caller sees to it that nothing writes meanwhile. */
  snapshot(volumeId: string, snapshotId: string): Promise<void>
  /** A new volume with the content of a snapshot. @throws Error when the new one exists. */
  clone(volumeId: string, snapshotId: string, newVolumeId: string): Promise<void>
  /** Bytes that the volume really takes, snapshots not counted. */
  usage(volumeId: string): Promise<{ readonly usedBytes: number; readonly sizeBytes: number }>
}

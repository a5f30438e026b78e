import { type FileHandle, open, stat } from 'node:fs/promises'
import { run } from '../../../lib/exec.ts'
import type { KeyedMutex } from '../../../lib/keyed-mutex.ts'
import { sync } from '../../disk/whole-file.ts'
import type { VolumePool } from '../../disk/pool.ts'
import type { Wire } from '../../hypervisor/transfer/wire.ts'
import { digestAt, hashOf } from './content.ts'
import { notMovable } from './send.ts'

/** Writes a volume sent by another host into a pool of this host. */
export interface VolumeReceiver {
  /** Starts to receive content of `size` bytes, either of a snapshot or the volume's current content. */
  take(size: number): Promise<void>
  data(offset: number, data: Buffer): Promise<void>
  /**
   * Checks the digest of the received content, and takes a snapshot of it if `snapshotId` is given.
   * @throws Error if the digest differs
   */
  whole(digest: string, snapshotId: string | null): Promise<void>
  close(): Promise<void>
}

/**
 * Creates a receiver that writes to a volume of the pool.
 * @param signal after its abort, the receiver creates nothing more in the pool, because the volume may belong to the
 * next transfer
 * @param keep takes a snapshot of the received content
 * @throws Error, StepError for failures of the pool or the disk; after an abort, the signal's reason
 */
export function volumeReceiver(
  pool: VolumePool,
  volumeId: string,
  signal: AbortSignal,
  keep = (snapshotId: string) => pool.snapshot(volumeId, snapshotId),
): VolumeReceiver {
  let file: FileHandle | undefined
  let path = ''
  let [size, largest, zeroed] = [0, 0, false]
  const close = async () => {
    await file?.close()
    file = undefined
  }
  return {
    async take(bytes) {
      if (!pool.blank) throw notMovable(pool)
      await close()
      signal.throwIfAborted()
      if (path === '') await pool.blank(volumeId, bytes)
      path = await pool.open(volumeId, 0)
      const isFile = (await stat(path)).isFile()
      // Snapshots of a volume that grew have different sizes, so the device must grow to the size of the largest one.
      if (!isFile && largest > 0 && bytes > largest) await pool.grow(volumeId, Math.ceil(bytes / 2 ** 20))
      size = bytes
      largest = Math.max(largest, size)
      file = await open(path, 'r+')
      if (isFile) await file.truncate(bytes)
    },
    async data(offset, data) {
      if (!file || offset + data.length > size)
        throw new Error(`the source host sent data outside the announced size of volume ${volumeId}`)
      zeroed ||= hashOf(data) === undefined
      await file.write(data, 0, data.length, offset)
    },
    async whole(digest, snapshotId) {
      await close()
      if (zeroed && (await stat(path)).isFile())
        await run('fallocate', ['--dig-holes', '--', path]).catch(() => undefined)
      zeroed = false
      await sync(path)
      const arrived = await digestAt(path, size, signal)
      if (arrived !== digest)
        throw new Error(`volume ${volumeId} was damaged during the transfer: the digest of the received data differs`)
      signal.throwIfAborted()
      if (snapshotId === null) return pool.close(volumeId)
      await keep(snapshotId)
    },
    close,
  }
}

export interface KeepDeps {
  readonly mutex: KeyedMutex
  /**
   * Whether a VM snapshot has been removed from this host, so that a received copy of a volume for it is not needed.
   */
  readonly isGone: (snapshotId: string) => Promise<boolean>
}

/**
 * Returns a function that takes a snapshot of the received content, unless the snapshot belongs to a VM snapshot that
 * was removed. The function holds the volume's mutex, as removals do, so that no copy outlives its VM snapshot.
 */
export const keepWanted =
  ({ mutex, isGone }: KeepDeps, pool: VolumePool, volumeId: string, signal: AbortSignal) =>
  (snapshotId: string): Promise<void> =>
    mutex.take(volumeId, async () => {
      signal.throwIfAborted()
      if (!(await isGone(snapshotId))) await pool.snapshot(volumeId, snapshotId)
    })

/** Receives a volume until it is complete, and acknowledges it to the other host once `keep` has resolved. */
export async function receiveVolume(
  wire: Wire,
  receiver: VolumeReceiver,
  volumeId: string,
  keep: () => Promise<void>,
): Promise<void> {
  try {
    for (;;) {
      const frame = await wire.next()
      if (frame?.kind === 'data') await receiver.data(frame.offset, frame.data)
      else if (frame?.kind === 'message' && frame.message.say === 'file' && frame.message.name === volumeId)
        await receiver.take(frame.message.size)
      else if (frame?.kind === 'message' && frame.message.say === 'whole') {
        const { digest, snapshotId } = frame.message
        await receiver.whole(digest, snapshotId)
        if (snapshotId === null) await keep()
        await wire.say({ say: 'loaded' })
        if (snapshotId === null) return
      } else throw new Error(`the source host ended the transfer of volume ${volumeId} before all data was sent`)
    }
  } catch (error) {
    await wire.say({ say: 'failed', reason: String(error) }).catch(() => undefined)
    throw error
  } finally {
    await receiver.close()
  }
}

import type { VolumePool } from '../../disk/pool.ts'
import { StepError } from '../../base/step-error.ts'
import type { Wire } from '../../hypervisor/transfer/wire.ts'
import { bytesOf, type Chunks, chunkBytes, chunksOf, dataIn, digestOf, hashOf } from './content.ts'

/** Name and version of the protocol. Each host sends it first, and both must have the same version. */
export const protocol = 'mote volume 1'

export interface SendProgress {
  readonly percent: number
  readonly transferredBytes: number
  readonly totalBytes: number
}

export interface VolumeToSend {
  readonly volumeId: string
  readonly pool: VolumePool
  /** Snapshots of the volume, oldest first. */
  readonly snapshots: readonly string[]
}

/** Sends one volume to another host, and tracks which content that host already has. */
export interface Sender {
  /** Sends all snapshots. The other host verifies each of them. */
  sendSnapshots(): Promise<void>
  /**
   * Sends the parts of the current content that the other host does not have yet. If a VM writes to the volume
   * meanwhile, the function must be called again.
   */
  sendContent(): Promise<void>
  /** Sends only the first bytes of the volume, because the hypervisor transfers the rest. */
  sendBegin(bytes: number): Promise<void>
  /**
   * Completes the transfer after the last write to the volume. Resolves once the other host has stored the content and
   * verified it by reading it back.
   */
  settle(): Promise<void>
}

const zeros = Buffer.alloc(chunkBytes)
/** Marks a chunk that must be sent again: the text differs from every hash. */
const notKnown = 'not known'

/**
 * Creates a sender. It sends each snapshot as the difference to the previous one, and the other host takes its own
 * snapshot after each, so that these snapshots share blocks if its pool supports that.
 * @throws StepError with the reason that the other host gave, Error if the connection breaks
 */
export function createSender(wire: Wire, volume: VolumeToSend, onProgress: (progress: SendProgress) => void): Sender {
  const { volumeId, pool, snapshots } = volume
  const there: Chunks = new Map()
  let [size, transferredBytes, doneBytes, totalBytes] = [0, 0, 0, 0]
  const report = () => {
    const percent = totalBytes === 0 ? 0 : Math.min(99, Math.round((1000 * doneBytes) / totalBytes) / 10)
    onProgress({ percent, transferredBytes, totalBytes })
  }
  const put = async (offset: number, data: Buffer, hash: string | undefined) => {
    if (there.get(offset) === hash) return
    await wire.data(offset, data)
    transferredBytes += data.length
    if (hash === undefined) there.delete(offset)
    else there.set(offset, hash)
  }
  const send = async (path: string) => {
    const data = await dataIn(path)
    size = data.size
    totalBytes = Math.max(totalBytes, doneBytes + bytesOf(data.ranges))
    await wire.say({ say: 'file', name: volumeId, size })
    // Chunks for which the other host has data. Those that remain after the loop are holes in the current content.
    const before = new Set(there.keys())
    for await (const { offset, data: chunk } of chunksOf(path, data)) {
      before.delete(offset)
      doneBytes += chunk.length
      await put(offset, chunk, hashOf(chunk))
      report()
    }
    for (const offset of before) {
      // The chunk is beyond the end of the current content, which is smaller than the previous one. The other host
      // truncates files to the new size, but not devices, so it may still have the chunk. It must be sent again with a
      // larger content later.
      if (offset >= size) there.set(offset, notKnown)
      else await put(offset, zeros.subarray(0, Math.min(chunkBytes, size - offset)), undefined)
    }
  }
  const whole = async (snapshotId: string | null) => {
    const within = new Map([...there].filter(([offset]) => offset < size))
    await wire.say({ say: 'whole', digest: digestOf(size, within), snapshotId })
    await wire.expect('loaded')
  }
  return {
    async sendSnapshots() {
      for (const snapshotId of snapshots) {
        if (!pool.readSnapshot) throw notMovable(pool)
        await pool.readSnapshot(volumeId, snapshotId, send)
        await whole(snapshotId)
      }
    },
    sendContent: async () => send(await pool.open(volumeId, 0)),
    async sendBegin(bytes) {
      const path = await pool.open(volumeId, 0)
      const data = await dataIn(path)
      size = data.size
      await wire.say({ say: 'file', name: volumeId, size })
      const begin = { size, ranges: bytes > 0 ? [{ start: 0, end: bytes }] : [] }
      for await (const { offset, data: chunk } of chunksOf(path, begin)) await put(offset, chunk, hashOf(chunk))
    },
    settle: () => whole(null),
  }
}

export function notMovable({ name, kind }: VolumePool): StepError {
  return new StepError('invalid_volume', `volumes of pool ${name} (${kind}) cannot be moved`)
}

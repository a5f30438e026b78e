import type { VolumePool } from '../../disk/pool.ts'
import { StepError } from '../../base/step-error.ts'
import type { Wire } from '../../hypervisor/transfer/wire.ts'
import { bytesOf, type Chunks, chunkBytes, chunksOf, dataIn, digestOf, hashOf } from './content.ts'

/** Named in the greeting: both hosts have to speak the same. */
export const protocol = 'mote volume 1'

export interface SendProgress {
  readonly percent: number
  readonly transferredBytes: number
  readonly totalBytes: number
}

export interface VolumeToSend {
  readonly volumeId: string
  readonly pool: VolumePool
  /** Of the volume, oldest first. */
  readonly snapshots: readonly string[]
}

/** What the other host has of one volume, and what has gone there. */
export interface Sender {
  /** All snapshots; the other host has checked each. */
  sendSnapshots(): Promise<void>
  /** What the volume holds, as far as it is not there yet. Somebody may write to it meanwhile: then it is not over. */
  sendContent(): Promise<void>
  /** The first bytes only, of a volume of which the rest comes another way. */
  sendBegin(bytes: number): Promise<void>
  /** Nobody writes any more, and all was sent: resolves when the other host has read back the same bytes and keeps them. */
  settle(): Promise<void>
}

const zeros = Buffer.alloc(chunkBytes)
/** In place of a hash: differs from what any chunk has. */
const notKnown = 'not known'

/**
 * The other host gets the snapshots in their order, each as what differs from the one before, and takes a snapshot of its own
 * after each: they share blocks there as far as its pool can.
 * @throws StepError with the other host's reason, Error when the connection breaks
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
    // What was there before and lies in a hole now.
    const before = new Set(there.keys())
    for await (const { offset, data: chunk } of chunksOf(path, data)) {
      before.delete(offset)
      doneBytes += chunk.length
      await put(offset, chunk, hashOf(chunk))
      report()
    }
    for (const offset of before) {
      // This one is smaller than the one before. A file was cut there, a device was not: what a larger one has there goes anew.
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

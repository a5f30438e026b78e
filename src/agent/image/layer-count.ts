/**
 * Counts the bytes and files to which the layers of an image unpack, without writing anything. Runs in a worker thread
 * (layer-thread.ts).
 */
import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { type Static, Type } from 'typebox'
import { createGunzip, createZstdDecompress, type Gunzip, type ZstdDecompress } from 'node:zlib'
import { unreadable } from '../../lib/archive/fault.ts'
import { type ArchiveLimits, tarEntries } from '../../lib/archive/tar.ts'
import { semaphore } from '../../lib/semaphore.ts'

export interface LayersJob {
  readonly files: readonly string[]
  /** Limits on all layers together. */
  readonly limits: ArchiveLimits
}

/** Number of bytes and of files to which all layers together unpack. */
export const LayersUse = Type.Object({ bytes: Type.Integer(), entries: Type.Integer() })
export type LayersUse = Static<typeof LayersUse>

/**
 * Number of layers that are read at the same time. Decompressing a Zstandard layer can take 128 MiB of memory (RFC
 * 8878, 3.1.1.1.2; the limit of zstd's library).
 */
const layersAtOnce = 2

/**
 * Reads all layers, a few of them in parallel on the thread pool. Every byte of an entry counts towards the limits, and
 * an entry that unpacks to more than the size in its header is refused.
 * @throws ArchiveFault
 */
export async function countLayers({ files, limits }: LayersJob): Promise<LayersUse> {
  const use = { bytes: 0, entries: 0 }
  const slots = semaphore(layersAtOnce)
  const failed = new AbortController()
  const counts = files.map(async file => {
    const release = await slots.take(failed.signal)
    const walk = async (chunks: AsyncIterable<Buffer>) => {
      for await (const _entry of tarEntries(chunks, limits, use));
    }
    const decompress = decompressorOf(await readHead(file))
    const source = createReadStream(file, { highWaterMark: chunkSize })
    const options = { signal: failed.signal }
    const read = decompress ? pipeline(source, decompress, walk, options) : pipeline(source, walk, options)
    await read.finally(release)
  })
  await Promise.all(counts)
    .catch((cause: unknown) => {
      throw cause instanceof Error && 'code' in cause && /^(Z_|ZSTD_)/.test(String(cause.code))
        ? unreadable('its compression is damaged')
        : cause
    })
    .finally(async () => {
      failed.abort()
      await Promise.allSettled(counts)
    })
  return use
}

function decompressorOf(head: Buffer): Gunzip | ZstdDecompress | undefined {
  const magic = head.readUInt32BE(0)
  if (magic >>> 16 === 0x1f8b) return createGunzip({ chunkSize })
  return magic === 0x28b52ffd ? createZstdDecompress({ chunkSize }) : undefined
}

/** The chunks are large, because each one costs a round trip to the thread pool. */
const chunkSize = 256 * 1024

async function readHead(path: string): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of createReadStream(path, { end: 3 })) if (Buffer.isBuffer(chunk)) chunks.push(chunk)
  return Buffer.concat([...chunks, Buffer.alloc(4)], 4)
}

import { createHash } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import type { Wire } from './wire.ts'

const chunkBytes = 256 << 10
const zeros = Buffer.alloc(chunkBytes)

/** The chunks of a file that the receiver has: hash by offset. A missing entry means that the chunk is all zeros. */
export type Sent = Map<number, string>

/**
 * Sends the chunks of a file that the receiver does not have: without `sent`, all chunks that are not zero; with the
 * result of an earlier call, the chunks that have changed since. Each call reads the whole file.
 * @param onBytes called with the number of bytes read
 */
export async function sendFile(
  wire: Wire,
  name: string,
  path: string,
  sent: Sent = new Map(),
  onBytes: (bytes: number) => void = () => undefined,
): Promise<Sent> {
  const file = await open(path, 'r')
  try {
    const { size } = await file.stat()
    await wire.say({ say: 'file', name, size })
    for (let offset = 0; offset < size; offset += chunkBytes) {
      const data = await readChunk(file, offset)
      onBytes(data.length)
      const hash = isZero(data) ? undefined : createHash('sha1').update(data).digest('base64')
      if (sent.get(offset) === hash) continue
      await wire.data(offset, data)
      if (hash === undefined) sent.delete(offset)
      else sent.set(offset, hash)
    }
    return sent
  } finally {
    await file.close()
  }
}

async function readChunk(file: FileHandle, offset: number): Promise<Buffer> {
  // Use a new buffer for each chunk, because the socket may still hold the previous one.
  const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(chunkBytes), 0, chunkBytes, offset)
  return buffer.subarray(0, bytesRead)
}

function isZero(data: Buffer): boolean {
  return data.equals(zeros.subarray(0, data.length))
}

/** Writes each received file to the path expected for its name. */
export interface FileReceiver {
  take(name: string, size: number): Promise<void>
  data(offset: number, data: Buffer): Promise<void>
  close(): Promise<void>
}

/** Creates a receiver. @param paths the path of each expected file, by name; other names are refused */
export function fileReceiver(paths: Readonly<Record<string, string>>): FileReceiver {
  let current: FileHandle | undefined
  let limit = 0
  const close = async () => {
    await current?.close()
    current = undefined
  }
  return {
    async take(name, size) {
      await close()
      const path = Object.hasOwn(paths, name) ? paths[name] : undefined
      if (path === undefined) throw new Error('the source host sent a file that this host does not expect')
      current = await open(path, 'r+').catch(() => open(path, 'wx+', 0o600))
      limit = size
      await current.truncate(size)
    },
    async data(offset, data) {
      if (!current || offset + data.length > limit)
        throw new Error('the source host sent data outside the announced size of a file')
      await current.write(data, 0, data.length, offset)
    },
    close,
  }
}

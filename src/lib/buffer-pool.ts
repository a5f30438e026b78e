/**
 * Memory for the bytes that pass through this thread. As garbage, each 64 MiB of it would cost a collection of the whole heap
 * (lib/shared-reads.ts).
 */

/** Shorter ones are slices of what Node.js pools. */
const minBytes = 1 << 15
const mostFree = 16

const free: ArrayBufferLike[] = []
/** Buffers in use that may be given back. */
const lent = new WeakSet<ArrayBufferLike>()

/** Memory with any content. */
export function takeBytes(length: number): Buffer {
  if (length < minBytes) return Buffer.allocUnsafe(length)
  const at = free.findIndex(({ byteLength }) => byteLength >= length)
  const [found = Buffer.allocUnsafeSlow(length).buffer] = at < 0 ? [] : free.splice(at, 1)
  lent.add(found)
  return Buffer.from(found, 0, length)
}

/**
 * Lets a later `takeBytes` use this memory. Only when nothing refers to it any more; memory that is not given back is
 * collected as any other. Ignores bytes of other origin.
 */
export function giveBytes({ buffer }: Uint8Array): void {
  if (!lent.delete(buffer)) return
  free.push(buffer)
  // The smallest ones fit least.
  if (free.length > mostFree) free.sort((a, b) => b.byteLength - a.byteLength).pop()
}

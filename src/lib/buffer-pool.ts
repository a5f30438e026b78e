/**
 * A pool of buffers for data that passes through this thread. Otherwise each 64 MiB of garbage buffers would cause a
 * collection of the whole heap (lib/shared-reads.ts).
 */

/** Shorter buffers are not pooled here, because Node.js takes them from its own pool. */
const minBytes = 1 << 15
const mostFree = 16

const free: ArrayBufferLike[] = []
/** Memory in use that may be given back. */
const lent = new WeakSet<ArrayBufferLike>()

/** Returns a buffer with undefined content. */
export function takeBytes(length: number): Buffer {
  if (length < minBytes) return Buffer.allocUnsafe(length)
  const at = free.findIndex(({ byteLength }) => byteLength >= length)
  const [found = Buffer.allocUnsafeSlow(length).buffer] = at < 0 ? [] : free.splice(at, 1)
  lent.add(found)
  return Buffer.from(found, 0, length)
}

/**
 * Allows a later `takeBytes` to reuse the memory. Call this only when nothing refers to it any more. Memory that is not
 * given back is garbage-collected as usual, and memory from elsewhere is ignored.
 */
export function giveBytes({ buffer }: Uint8Array): void {
  if (!lent.delete(buffer)) return
  free.push(buffer)
  // Drop the smallest, which fits the fewest requests.
  if (free.length > mostFree) free.sort((a, b) => b.byteLength - a.byteLength).pop()
}

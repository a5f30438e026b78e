/**
 * A pool of buffers for data that passes through this thread. Without the pool, each 64 MiB of garbage buffers would
 * cause a collection of the whole heap (lib/shared-reads.ts).
 */

/** Minimum size of a pooled buffer. Node.js takes shorter ones from a pool of its own. */
const minBytes = 1 << 15
const mostFree = 16

const free: ArrayBufferLike[] = []
/** Memory of the pool that callers use at the moment, and may give back. */
const lent = new WeakSet<ArrayBufferLike>()

/** Returns a buffer from the pool, with undefined content. */
export function takeBytes(length: number): Buffer {
  if (length < minBytes) return Buffer.allocUnsafe(length)
  const at = free.findIndex(({ byteLength }) => byteLength >= length)
  const [found = Buffer.allocUnsafeSlow(length).buffer] = at < 0 ? [] : free.splice(at, 1)
  lent.add(found)
  return Buffer.from(found, 0, length)
}

/**
 * Gives memory back, so that a later `takeBytes` can reuse it. Call this only when nothing refers to it any more.
 * Memory that is not given back is garbage-collected as usual, and memory from elsewhere is ignored.
 */
export function giveBytes({ buffer }: Uint8Array): void {
  if (!lent.delete(buffer)) return
  free.push(buffer)
  // Drop the smallest buffer, which fits the fewest requests.
  if (free.length > mostFree) free.sort((a, b) => b.byteLength - a.byteLength).pop()
}

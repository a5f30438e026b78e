/** Reading sockets without an allocation for each chunk. */
import type { OnReadOpts } from 'node:net'

/** A read and the handling of its bytes are one step, so that all sockets of this thread can share the memory. */
const memory = Buffer.allocUnsafeSlow(1 << 18)

/**
 * Option `onread` of a socket that passes its bytes to `take` and emits no `data`. The bytes are valid only during the call.
 * Chunks of their own are garbage outside of the heap, and each 64 MiB of it cost a collection of the whole heap: half of the
 * time of an agent that moves the bytes of a session.
 */
export const sharedReads = (take: (bytes: Buffer) => void): OnReadOpts => ({
  buffer: memory,
  callback(count) {
    take(memory.subarray(0, count))
    return true
  },
})

/**
 * Stalls the memory transfer of a live migration shortly before its end. QEMU pauses the guest as soon as little memory
 * is left to copy, and QEMU 7.2 has no option to delay that. But as long as the agent does not read QEMU's output, QEMU
 * waits, and the guest keeps running.
 */
import { once } from 'node:events'
import type { Socket } from 'node:net'

/**
 * The gate closes when this much memory is left to send. QEMU can write 400 KB more after the agent stops reading
 * (QEMU's buffer, both socket buffers, and the agent's), and some between two checks. If all of these bytes are zero
 * pages, which take 9 bytes each, they stand for 206 MiB of memory.
 */
const leftBytes = 256 * 2 ** 20
const pageBytes = 4096
const zeroPageBytes = 9
const leastBytes = 64 * 1024
const mostBytes = 4 * 2 ** 20

export interface Gate {
  /** Forwards QEMU's output until little memory is left to send. Resolves when `release` is called. */
  pass(qemu: Socket, outside: Socket): Promise<void>
  /** True once little memory is left to send or QEMU has closed its output. */
  closed(): boolean
  release(): void
}

/** Returns how many bytes of QEMU's output may pass before the next check; 0 closes the gate. */
export const copyTimeout = (remainingBytes: number): number =>
  remainingBytes <= leftBytes
    ? 0
    : Math.min(mostBytes, Math.max(leastBytes, ((remainingBytes - leftBytes) / pageBytes) * zeroPageBytes))

/** Creates a gate. @param remaining reads the bytes of memory left to send; undefined before the transfer starts */
export function createGate(remaining: () => Promise<number | undefined>): Gate {
  const released = Promise.withResolvers<void>()
  let closed = false
  return {
    closed: () => closed,
    release: () => released.resolve(),
    async pass(qemu, outside) {
      try {
        let allowed = leastBytes
        for await (const chunk of qemu.iterator({ destroyOnReturn: false })) {
          if (!outside.write(chunk)) await once(outside, 'drain')
          allowed -= chunk.length
          if (allowed > 0) continue
          const left = await remaining()
          allowed = left === undefined ? leastBytes : copyTimeout(left)
          if (allowed === 0) break
        }
      } finally {
        closed = true
      }
      await released.promise
    },
  }
}

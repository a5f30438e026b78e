/**
 * Stalls the memory transfer of a live migration shortly before its end. QEMU pauses the guest as soon as little memory
 * is left to copy, and 7.2 has no option to delay that. It does wait while its output is not read, and the guest keeps
 * running.
 */
import { once } from 'node:events'
import type { Socket } from 'node:net'

/**
 * The gate closes when this much memory is left. QEMU can write 400 KB more after the gate stops reading (its own
 * buffer, both socket buffers, and the agent's), and some between two checks. If these are zero pages of 9 bytes each,
 * they stand for 206 MiB of memory.
 */
const leftBytes = 256 * 2 ** 20
const pageBytes = 4096
const zeroPageBytes = 9
const leastBytes = 64 * 1024
const mostBytes = 4 * 2 ** 20

export interface Gate {
  /** Forwards QEMU's output until little memory is left. Resolves when the gate is released. */
  pass(qemu: Socket, outside: Socket): Promise<void>
  /** True once little memory is left or QEMU has closed its output. */
  closed(): boolean
  release(): void
}

/** Returns how many bytes may pass before the next check; 0 closes the gate. */
export const copyTimeout = (remainingBytes: number): number =>
  remainingBytes <= leftBytes
    ? 0
    : Math.min(mostBytes, Math.max(leastBytes, ((remainingBytes - leftBytes) / pageBytes) * zeroPageBytes))

/** Creates a gate. @param remaining reads the bytes of memory not sent yet; undefined before the transfer starts */
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

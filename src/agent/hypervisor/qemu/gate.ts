/**
 * Holds the memory of a VM that leaves back shortly before its end. QEMU stops the guest by itself as soon as little is left
 * to copy, and 7.2 cannot be told to wait for that: it waits when nobody reads what it writes. The guest runs on meanwhile.
 */
import { once } from 'node:events'
import type { Socket } from 'node:net'

/**
 * What QEMU may still write once it is not read (400 KB: its own buffer, both ends of the socket, ours) and between two looks
 * may be pages of zeros, 9 bytes each: 206 MiB of memory. This much must be left.
 */
const leftBytes = 256 * 2 ** 20
const pageBytes = 4096
const zeroPageBytes = 9
const leastBytes = 64 * 1024
const mostBytes = 4 * 2 ** 20

export interface Gate {
  /** Passes on what QEMU writes until little is left; resolves when it is released. */
  pass(qemu: Socket, outside: Socket): Promise<void>
  /** True from when little is left, or QEMU has nothing more to say. */
  closed(): boolean
  release(): void
}

/** How much may pass before the next look; 0: the gate closes. */
export const copyTimeout = (remainingBytes: number): number =>
  remainingBytes <= leftBytes
    ? 0
    : Math.min(mostBytes, Math.max(leastBytes, ((remainingBytes - leftBytes) / pageBytes) * zeroPageBytes))

/** @param remaining bytes of memory that QEMU has not sent yet; undefined: it has not begun */
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

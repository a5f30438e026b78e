import type { Readable } from 'node:stream'

/** Limits how fast the host reads from a guest. */
export interface Pace {
  readonly bytesPerSecond: number
  /** A higher rate, which applies while `isAllowed` returns true. */
  readonly faster?: { readonly bytesPerSecond: number; readonly isAllowed: () => boolean }
  readonly burstBytes: number
  /**
   * Number of bytes by which each line counts more than its length, because a guest can send a million empty lines at
   * once.
   */
  readonly lineBytes: number
  /** Returns how many bytes of the last chunk do not count toward the limit. */
  readonly freeBytes?: () => number
}

/**
 * Default rate limit, also used for the control port. The burst is larger than the complete output of one `exec`, which
 * must arrive within its timeout. Reading at this rate costs at most 2 % of a core.
 */
export const answerPace: Pace = { bytesPerSecond: 16 << 20, burstBytes: 8 << 20, lineBytes: 1024 }
/**
 * Rate of the control port while a client reads the output of a session. The client's acknowledgments limit what a
 * well-behaved guest sends. A guest that ignores them costs at most 8 % of a core at this rate.
 */
export const sessionBytesPerSecond = 64 << 20
/**
 * Fraction of a record's bytes that counts toward the rate, because the window that the host grants limits records,
 * too.
 */
export const recordShare = 1 / 16
/**
 * Rate limit for the log port: four times the rate that the log stores (`AgentConfig.log`), and a burst for the guest's
 * full ring buffer. With `answerPace` as limit, one guest could use 8 % of a core for lines that the agent then
 * dropped. The guest drops and counts lines that do not fit its ring buffer.
 */
export const logPace: Pace = { bytesPerSecond: 4 << 20, burstBytes: 4 << 20, lineBytes: 1024 }
/** Rate limit for the console. It is low because the agent retains only the end of the output. */
export const consolePace: Pace = { bytesPerSecond: 64 << 10, burstBytes: 1 << 20, lineBytes: 0 }

/**
 * Reads the socket at a limited rate, so that one guest cannot starve the others. Excess data waits in the guest.
 * @param take handles a chunk, which may be valid only during the call, and returns its number of lines
 */
export function readPaced(
  socket: Readable,
  take: (part: Buffer) => number,
  { bytesPerSecond, faster, burstBytes, lineBytes, freeBytes }: Pace = answerPace,
): void {
  let credit = burstBytes
  let lastMs = performance.now()
  let timer: NodeJS.Timeout | undefined
  socket.on('data', (part: Buffer) => {
    const nowMs = performance.now()
    const rate = faster?.isAllowed() ? faster.bytesPerSecond : bytesPerSecond
    credit = Math.min(burstBytes, credit + ((nowMs - lastMs) / 1000) * rate)
    lastMs = nowMs
    credit -= part.length + take(part) * lineBytes - (freeBytes?.() ?? 0)
    if (credit >= 0 || socket.destroyed) return
    socket.pause()
    timer = setTimeout(() => socket.resume(), (-credit / rate) * 1000)
  })
  socket.once('close', () => clearTimeout(timer))
  socket.resume()
}

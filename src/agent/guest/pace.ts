import type { Readable } from 'node:stream'

export interface Pace {
  readonly bytesPerSecond: number
  /** Replaces `bytesPerSecond` while it returns true. */
  readonly faster?: { readonly bytesPerSecond: number; readonly isAllowed: () => boolean }
  readonly burstBytes: number
  /** Extra cost of each line, in bytes, because a guest can send a million empty lines at once. */
  readonly lineBytes: number
  /** Bytes of the last chunk that do not count. */
  readonly freeBytes?: () => number
}

/** More than the complete output of one `exec`, which must arrive within its timeout. Costs at most 2 % of a core. */
export const answerPace: Pace = { bytesPerSecond: 16 << 20, burstBytes: 8 << 20, lineBytes: 1024 }
/**
 * While a client reads the output of a session. Its acknowledgments limit what the guest may send, so this only limits
 * a guest that breaks the protocol, which may then cost 8 % of a core.
 */
export const sessionBytesPerSecond = 64 << 20
/** Share of its bytes that output in records counts, which is within the window that the host has granted. */
export const recordShare = 1 / 16
/**
 * Four times the rate that the log retains (`AgentConfig.log`), plus the guest's full ring buffer. At the pace of
 * answers, one guest used 8 % of a core for lines that were then dropped. The guest drops and counts lines that do not
 * fit its ring.
 */
export const logPace: Pace = { bytesPerSecond: 4 << 20, burstBytes: 4 << 20, lineBytes: 1024 }
/** Only the end of the console is retained. */
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

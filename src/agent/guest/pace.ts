import type { Socket } from 'node:net'

export interface Pace {
  readonly bytesPerSecond: number
  readonly burstBytes: number
  /** A line costs as much as this many bytes; a guest may send a million empty ones in a moment. */
  readonly lineBytes: number
}

/** More than a guest's whole output of a program that it runs for us, which has to come in its time: 2 % of a core at most. */
const answerPace: Pace = { bytesPerSecond: 16 << 20, burstBytes: 8 << 20, lineBytes: 1024 }
/**
 * Four times what its log keeps (`AgentConfig.log`), and all that its ring has held while nobody read it. At the pace of
 * answers one guest took 8 % of a core for lines that were cut; what waits is dropped in the guest, and counted, too.
 */
export const logPace: Pace = { bytesPerSecond: 4 << 20, burstBytes: 4 << 20, lineBytes: 1024 }
/** Nobody reads more of it than its end. */
export const consolePace: Pace = { bytesPerSecond: 64 << 10, burstBytes: 1 << 20, lineBytes: 0 }

/**
 * Reads the socket, but no faster than it can be handled beside the host's other guests: what is more waits in the guest.
 * @param take handles a part, and answers how many lines it had
 */
export function readPaced(
  socket: Socket,
  take: (part: Buffer) => number,
  { bytesPerSecond, burstBytes, lineBytes }: Pace = answerPace,
): void {
  let credit = burstBytes
  let lastMs = performance.now()
  let timer: NodeJS.Timeout | undefined
  socket.on('data', (part: Buffer) => {
    const nowMs = performance.now()
    credit = Math.min(burstBytes, credit + ((nowMs - lastMs) / 1000) * bytesPerSecond)
    lastMs = nowMs
    credit -= part.length + take(part) * lineBytes
    if (credit >= 0 || socket.destroyed) return
    socket.pause()
    timer = setTimeout(() => socket.resume(), (-credit / bytesPerSecond) * 1000)
  })
  socket.once('close', () => clearTimeout(timer))
}

import type { Socket } from 'node:net'

/** More than a guest's whole output of a program that it runs for us, which has to come in its time. */
const bytesPerSecond = 16 << 20
const burstBytes = 8 << 20
/** A line costs as much as this many bytes; a guest may send a million empty ones in a moment. */
const lineBytes = 256

/**
 * Reads the socket, but no faster than it can be handled beside the host's other guests: what is more waits in the guest.
 * @param take handles a part, and answers how many lines it had
 */
export function readPaced(socket: Socket, take: (part: Buffer) => number): void {
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

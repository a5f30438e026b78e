import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'

/** UDP port on which hosts answer probes from other hosts, on their mesh addresses. */
const probePort = 51_821
const everyMs = 500
/** A peer that has not answered a probe for this long counts as unreachable. */
export const silentMs = 2_500
const headBytes = 17

/** Measures the round-trip time to each peer through the tunnel, and answers the peers' probes. */
export interface Prober {
  setPeers(addresses: readonly string[]): void
  /** Returns the latest round-trip time to the peer in ms; null if the peer is unreachable. */
  latencyMs(address: string): number | null
  stop(): void
}

interface Link {
  sent: number
  answeredAtMs: number
  latencyMs: number
}

/** Starts to answer probes, and to send them to peers. @param address this host's mesh address */
export async function startProber(address: string, onError: (error: unknown) => void): Promise<Prober> {
  const socket = createSocket('udp6')
  socket.bind(probePort, address)
  await once(socket, 'listening')
  socket.on('error', onError)
  const links = new Map<string, Link>()
  socket.on('message', (message, from) => {
    if (message.length !== headBytes) return
    if (message[0] === 0) send(socket, answerTo(message), from.address)
    else heard(links.get(from.address), message)
  })
  const timer = setInterval(() => {
    for (const [peer, link] of links) send(socket, question(++link.sent), peer)
  }, everyMs)
  return {
    setPeers(addresses) {
      for (const known of links.keys()) if (!addresses.includes(known)) links.delete(known)
      for (const peer of addresses)
        if (!links.has(peer)) links.set(peer, { sent: 0, answeredAtMs: Number.NEGATIVE_INFINITY, latencyMs: 0 })
    },
    latencyMs: peer => {
      const link = links.get(peer)
      return link && performance.now() - link.answeredAtMs < silentMs ? link.latencyMs : null
    },
    stop() {
      clearInterval(timer)
      socket.close()
    },
  }
}

/**
 * Encodes a probe: one byte for its kind, a sequence number, and the sender's clock, which the reply returns unchanged.
 */
function question(number: number): Buffer {
  const message = Buffer.alloc(headBytes)
  message.writeDoubleBE(number, 1)
  message.writeDoubleBE(performance.now(), 9)
  return message
}

function answerTo(message: Buffer): Buffer {
  const answer = Buffer.from(message)
  answer[0] = 1
  return answer
}

function heard(link: Link | undefined, message: Buffer): void {
  if (!link) return
  const nowMs = performance.now()
  const latencyMs = nowMs - message.readDoubleBE(9)
  // Refuse forged replies. The clock is monotonic, and only this process knows its value.
  if (latencyMs < 0 || latencyMs > silentMs || message.readDoubleBE(1) > link.sent) return
  link.answeredAtMs = nowMs
  link.latencyMs = Math.round(latencyMs * 100) / 100
}

/**
 * Sends a message. Ignores errors such as a missing route or device: the reply is then missing, and the peer becomes
 * unreachable.
 */
function send(socket: Socket, message: Buffer, to: string): void {
  socket.send(message, probePort, to, () => undefined)
}

/**
 * The DNS resolver for this host's guests: resolves private names by project, and forwards other names to the host's
 * resolvers.
 */
import { createSocket } from 'node:dgram'
import { createServer, type Socket } from 'node:net'
import packet, { type DecodedPacket } from 'dns-packet'
import { answerPrivate, encodeUdp, response, type ZoneNames } from './answer.ts'
import { type Forward, framed, messages } from './forward.ts'
import { rates, type Share, shares } from './shares.ts'

/** The guest that sent a query. */
export interface DnsClient {
  /** The private names of the guest's project, with their addresses. */
  readonly names: ZoneNames
  /** True if the guest's firewall rules allow DNS queries to resolvers outside the host. */
  readonly mayAskOthers: boolean
}

export interface ResolverOptions {
  readonly address: string
  /** UDP and TCP port of the resolver; 0: any free port. */
  readonly port: number
  /** Returns the guest with this source address; undefined if no guest of this host has it. */
  readonly client: (address: string) => DnsClient | undefined
  readonly forward: Forward
  /** Maximum number of queries per second from one guest, over UDP and TCP together. */
  readonly queriesPerSecond: number
  /** Called when a query is refused because its sender exceeds a limit. */
  readonly onRefused?: (address: string) => void
  readonly onError: (error: unknown) => void
}

export interface Resolver {
  readonly port: number
  stop(): Promise<void>
}

/** Limits on concurrently forwarded queries, each of which uses a socket of the agent. */
const forwardShare: Share = { each: 64, busy: 512, eachWhenBusy: 4 }
const tcpShare: Share = { each: 16, busy: 128, eachWhenBusy: 2 }
const mostTcp = 256
const idleTcpMs = 10_000

/** Starts the DNS resolver. @throws Error when the address or port is not available */
export async function startResolver(options: ResolverOptions): Promise<Resolver> {
  const end = new AbortController()
  const handle = queryHandler(options, end.signal)
  const connections = shares(tcpShare)
  const tcp = createServer(socket => {
    const { remoteAddress = '' } = socket
    const release = connections.take(remoteAddress)
    if (!release) {
      options.onRefused?.(remoteAddress)
      return void socket.destroy()
    }
    socket.once('close', release)
    serveTcp(socket, handle)
  })
  tcp.maxConnections = mostTcp
  await listening(tcp, resolve => tcp.listen(options.port, options.address, resolve))
  const address = tcp.address()
  const port = typeof address === 'object' && address ? address.port : options.port
  const udp = createSocket({ type: options.address.includes(':') ? 'udp6' : 'udp4' })
  udp.on('message', (message, from) => {
    handle(message, from.address, 'udp').then(answer => {
      if (answer && !end.signal.aborted) udp.send(answer, from.port, from.address)
    }, options.onError)
  })
  try {
    await listening(udp, resolve => udp.bind(port, options.address, resolve))
  } catch (error) {
    tcp.close()
    throw error
  }
  udp.on('error', options.onError)
  tcp.on('error', options.onError)
  const open = new Set<Socket>()
  tcp.on('connection', socket => open.add(socket.once('close', () => open.delete(socket))))
  return {
    port,
    async stop() {
      end.abort()
      for (const socket of open) socket.destroy()
      await Promise.all([new Promise(resolve => tcp.close(resolve)), new Promise<void>(resolve => udp.close(resolve))])
    },
  }
}

type Handle = (message: Buffer, from: string, over: 'udp' | 'tcp') => Promise<Buffer | undefined>

function queryHandler(options: ResolverOptions, signal: AbortSignal): Handle {
  const { client, forward, queriesPerSecond, onRefused = () => undefined } = options
  const asking = rates(queriesPerSecond, () => performance.now())
  const forwarding = shares(forwardShare)
  return async (message, from, over) => {
    // Check the guest's rate limit before decoding, so that a refused query costs little.
    if (!asking.take(from)) return void onRefused(from)
    const query = decoded(message)
    const asker = client(from)
    if (!query || !asker) return undefined
    const encode = (answer: packet.Packet) => (over === 'udp' ? encodeUdp(query, answer) : packet.encode(answer))
    const own = answerPrivate(query, asker.names)
    if (own) return encode(own)
    if (!asker.mayAskOthers) return encode(response(query, 'REFUSED'))
    const release = forwarding.take(from)
    if (!release) {
      onRefused(from)
      return encode(response(query, 'REFUSED'))
    }
    try {
      return await forward(message, over, signal)
    } catch {
      return encode(response(query, 'SERVFAIL'))
    } finally {
      release()
    }
  }
}

/**
 * Length of a DNS header. The number of records is checked before decoding: a query has one question, and at most
 * options and a signature in addition (RFC 6891, RFC 8945). A query with more records could be slow to decode, because
 * names may be compressed.
 */
const headerBytes = 12
const maxQueryBytes = 1232
const mayBeQuery = (message: Buffer) =>
  message.length >= headerBytes &&
  message.length <= maxQueryBytes &&
  message.readUInt16BE(4) === 1 &&
  message.readUInt32BE(6) === 0 &&
  message.readUInt16BE(10) <= 2

/** Decodes a query. Returns undefined for any other packet, which gets no response. */
export function decoded(message: Buffer): DecodedPacket | undefined {
  if (!mayBeQuery(message)) return undefined
  try {
    const query = packet.decode(message)
    return query.type === 'query' ? query : undefined
  } catch {
    return undefined
  }
}

/**
 * Maximum number of queries that a client may send over one TCP connection without waiting for responses. With more,
 * the connection is closed.
 */
const mostPipelined = 100

function serveTcp(socket: Socket, handle: Handle): void {
  const { remoteAddress = '' } = socket
  let pending = 0
  socket.setTimeout(idleTcpMs, () => socket.destroy()).on('error', () => undefined)
  const onMessage = (message: Buffer) => {
    if (socket.destroyed) return
    if (++pending > mostPipelined || !mayBeQuery(message)) return void socket.destroy()
    handle(message, remoteAddress, 'tcp').then(
      answer => {
        pending -= 1
        return answer && socket.writable ? socket.write(framed(answer)) : socket.destroy()
      },
      () => socket.destroy(),
    )
  }
  socket.on('data', messages(onMessage))
}

function listening(
  server: {
    once(event: 'error', listener: (error: Error) => void): unknown
    off(event: 'error', listener: (error: Error) => void): unknown
  },
  start: (done: () => void) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    start(() => {
      server.off('error', reject)
      resolve()
    })
  })
}

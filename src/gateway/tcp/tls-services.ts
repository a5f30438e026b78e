/**
 * TCP services on one shared port. The client's TLS server name (RFC 6066, 3) selects the service; the gateway
 * decrypts, and the VM gets plain TCP. The handshake is parsed only by OpenSSL.
 */
import type { Socket } from 'node:net'
import { type SecureContext, type Server, type TLSSocket, createServer } from 'node:tls'
import { tlsName } from '../../contract/gateway.ts'
import { type Listener, limitConnections } from '../listener.ts'
import { serve, type TcpDeps } from './serve.ts'

export interface TlsServicesOptions {
  readonly host: string
  readonly port: number
  /** Time without data after which a connection is closed, in ms; 0: never. */
  readonly idleMs: number
  /** Time limit for the handshake, after which the client is disconnected. */
  readonly handshakeMs: number
  readonly connections: number
  readonly connectionsPerClient: number
}

export interface TlsServicesDeps extends TcpDeps {
  /** Returns the certificate of a hostname; undefined if it has none. */
  readonly certificate: (hostname: string) => Promise<SecureContext | undefined>
}

/** Listens on the shared port. @throws Error when the port is in use */
export async function startTlsServices(options: TlsServicesOptions, deps: TlsServicesDeps): Promise<Listener> {
  const server = createServer({
    // Connections stay half-open, because a client that has sent everything still reads.
    allowHalfOpen: true,
    noDelay: true,
    keepAlive: true,
    handshakeTimeout: options.handshakeMs,
    // Node.js calls this only if the client names a server. Other clients get no certificate, so their handshake fails.
    SNICallback(name, answer) {
      contextOf(deps, name.toLowerCase()).then(
        context => (context ? answer(null, context) : answer(new Error('no such service'))),
        (cause: unknown) => answer(cause instanceof Error ? cause : new Error(String(cause))),
      )
    },
    ALPNCallback: ({ protocols }) => agreed(protocols),
  })
  limitConnections(server, options, deps.trusts)
  /** All open connections, including those whose handshake is not finished. */
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  // Errors are not logged, because clients often connect without TLS or disconnect during the handshake.
  server.on('tlsClientError', (_error, socket) => socket.destroy())
  serveNames(server, options, deps)
  const port = await listening(server, options)
  return {
    port,
    async stop(drainMs) {
      const cut = setTimeout(() => {
        for (const socket of sockets) socket.destroy()
      }, drainMs)
      await new Promise<void>(resolve => void server.close(() => resolve()))
      clearTimeout(cut)
    },
  }
}

/** Returns the certificate for a server name. Names without a service cause no query for a certificate. */
async function contextOf({ table, certificate }: TlsServicesDeps, name: string) {
  return (await table.current(tlsName(name))) && certificate(name)
}

/**
 * Chooses the ALPN protocol. The gateway cannot know what the program speaks. A client that offers a single protocol
 * insists on it (PostgreSQL's direct TLS). If the client offers several, HTTP/1.1 is the one that a program without TLS
 * of its own can speak.
 */
const agreed = (protocols: readonly string[]) => (protocols.includes('http/1.1') ? 'http/1.1' : protocols[0])

/** Serves decrypted connections, and closes those of a service when its route is removed. */
function serveNames(server: Server, options: TlsServicesOptions, deps: TlsServicesDeps): void {
  const open = new Map<string, Set<Socket>>()
  server.on('secureConnection', (client: TLSSocket & { readonly servername?: string | false }) => {
    client.on('error', () => client.destroy())
    // Cannot happen: without a server name, no certificate was selected, so the handshake failed.
    if (!client.servername) return void client.destroy()
    const name = tlsName(client.servername.toLowerCase())
    const sockets = open.get(name) ?? new Set<Socket>()
    open.set(name, sockets.add(client))
    client.once('close', () => {
      if (sockets.delete(client) && sockets.size === 0) open.delete(name)
    })
    if (options.idleMs > 0) client.setTimeout(options.idleMs, () => client.destroy())
    serve(deps, name, client).catch((cause: unknown) => {
      deps.log.error({ err: cause, name }, 'a TCP connection failed inside the gateway')
      client.destroy()
    })
  })
  deps.table.onChange(route => {
    if (route.state === 'gone') for (const socket of open.get(route.hostname) ?? []) socket.destroy()
  })
}

/** Starts listening. @returns the port @throws Error when it is in use */
function listening(server: Server, { host, port }: TlsServicesOptions): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  server.once('error', reject)
  server.listen(port, host, () => {
    const address = server.address()
    resolve(typeof address === 'object' && address ? address.port : port)
  })
  return promise
}

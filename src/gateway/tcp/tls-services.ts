/**
 * TCP services on one shared port: the TLS server name of the client (RFC 6066, 3) selects the service, the gateway
 * decrypts, and the VM gets plain TCP. OpenSSL parses the handshake; no byte of it is parsed here.
 */
import type { Socket } from 'node:net'
import { type SecureContext, type Server, type TLSSocket, createServer } from 'node:tls'
import { tlsName } from '../../contract/gateway.ts'
import { type Listener, limitConnections } from '../listener.ts'
import { serve, type TcpDeps } from './serve.ts'

export interface TlsServicesOptions {
  readonly host: string
  readonly port: number
  /** Connections without data for this long are closed; 0: never. */
  readonly idleMs: number
  /** A client that has not finished the handshake by then is disconnected. */
  readonly handshakeMs: number
  readonly connections: number
  readonly connectionsPerClient: number
}

export interface TlsServicesDeps extends TcpDeps {
  /** Finds the certificate of a hostname. */
  readonly certificate: (hostname: string) => Promise<SecureContext | undefined>
}

/** @throws Error when the port is in use */
export async function startTlsServices(options: TlsServicesOptions, deps: TlsServicesDeps): Promise<Listener> {
  const server = createServer({
    // A client that has sent everything still reads.
    allowHalfOpen: true,
    noDelay: true,
    keepAlive: true,
    handshakeTimeout: options.handshakeMs,
    // A client that names no server gets no certificate, and so no connection.
    SNICallback(name, answer) {
      contextOf(deps, name.toLowerCase()).then(
        context => (context ? answer(null, context) : answer(new Error('no such service'))),
        (cause: unknown) => answer(cause instanceof Error ? cause : new Error(String(cause))),
      )
    },
    ALPNCallback: ({ protocols }) => agreed(protocols),
  })
  limitConnections(server, options, deps.trusts)
  /** Also those that have not finished the handshake. */
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  // Not logged: clients often connect without TLS or leave during the handshake.
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

/** Undefined if no service has the name, before any certificate is looked for. */
async function contextOf({ table, certificate }: TlsServicesDeps, name: string) {
  return (await table.current(tlsName(name))) && certificate(name)
}

/**
 * The program is not asked which protocols it speaks. Clients that name one insist on it (PostgreSQL's direct TLS), and
 * of several, HTTP/1.1 is the one that a program without TLS of its own can speak.
 */
const agreed = (protocols: readonly string[]) => (protocols.includes('http/1.1') ? 'http/1.1' : protocols[0])

/** Serves decrypted connections until the route of their name is removed. */
function serveNames(server: Server, options: TlsServicesOptions, deps: TlsServicesDeps): void {
  const open = new Map<string, Set<Socket>>()
  server.on('secureConnection', (client: TLSSocket & { readonly servername?: string | false }) => {
    client.on('error', () => client.destroy())
    // The handshake ends without a name only if nothing selected the certificate.
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

/** @returns the port; @throws Error when it is in use */
function listening(server: Server, { host, port }: TlsServicesOptions): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  server.once('error', reject)
  server.listen(port, host, () => {
    const address = server.address()
    resolve(typeof address === 'object' && address ? address.port : port)
  })
  return promise
}

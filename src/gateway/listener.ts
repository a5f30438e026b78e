/** The gateway's public HTTP server: connection limits and graceful shutdown. */
import { type Server, createServer } from 'node:http'
import { type Server as NetServer, type Socket, isIPv4 } from 'node:net'
import type { Logger } from 'pino'
import { trackConnections } from '../lib/http-close.ts'
import { sendPage } from './pages.ts'
import type { ProxyDeps } from './admission.ts'
import { handleRequest } from './proxy.ts'
import { handleUpgrade } from './upgrade.ts'

export interface Listener {
  readonly port: number
  /** Accepts no new connections, gives pending requests `drainMs` to finish, then closes. */
  stop(drainMs: number): Promise<void>
}

export interface ListenOptions {
  readonly host: string
  readonly port: number
  readonly connections: number
  readonly connectionsPerClient: number
}

/** requestTimeout is 0, because an upload may take any time. headersTimeout limits the time for the headers. */
export const serverOptions = {
  keepAliveTimeout: 65_000,
  headersTimeout: 30_000,
  requestTimeout: 0,
  noDelay: true,
  highWaterMark: 65_536,
} as const

export async function listenHttp(options: ListenOptions, proxy: ProxyDeps, log: Logger): Promise<Listener> {
  const server = createServer(serverOptions)
  serveHttp1(server, proxy, log)
  limitConnections(server, options, proxy.trusts)
  const closeConnections = trackConnections(server)
  const port = await listen(server, options)
  return {
    port,
    stop: drainMs => {
      sayGoodbye(server)
      return closeConnections(drainMs, new Promise<void>(resolve => server.close(() => resolve())))
    },
  }
}

/** Handles requests and upgrades of an HTTP/1.1 server. */
export function serveHttp1(server: Pick<Server, 'on'>, proxy: ProxyDeps, log: Logger): void {
  server.on('request', (request, response) => {
    handleRequest(proxy, request, response).catch((cause: unknown) => {
      log.error({ err: cause, host: request.headers.host }, 'a request failed inside the gateway')
      if (!response.headersSent) sendPage(request, response, 'bad_gateway')
      else response.destroy()
    })
  })
  server.on('upgrade', (request, socket, head) => {
    handleUpgrade(proxy, request, socket as Socket, head).catch((cause: unknown) => {
      log.error({ err: cause, host: request.headers.host }, 'an upgrade failed inside the gateway')
      socket.destroy()
    })
  })
}

/** Makes each further response of a stopping server close its connection. */
export function sayGoodbye(server: Pick<Server, 'prependListener'>): void {
  server.prependListener('request', (_request, response) => {
    response.shouldKeepAlive = false
  })
}

/**
 * Closes connections above the limit immediately, before anything is read. Trusted proxies are exempt, because they
 * serve many clients.
 */
export function limitConnections(
  server: NetServer,
  { connections, connectionsPerClient }: Pick<ListenOptions, 'connections' | 'connectionsPerClient'>,
  trusts: (address: string) => boolean,
): void {
  if (connections > 0) server.maxConnections = connections
  if (connectionsPerClient === 0) return
  const open = new Map<string, number>()
  server.on('connection', (socket: Socket) => {
    const client = clientKey(socket.remoteAddress ?? '')
    if (trusts(client)) return
    const count = (open.get(client) ?? 0) + 1
    if (count > connectionsPerClient) return void socket.destroy()
    open.set(client, count)
    socket.once('close', () => {
      const left = (open.get(client) ?? 1) - 1
      if (left === 0) open.delete(client)
      else open.set(client, left)
    })
  })
}

const clientKey = (address: string) => {
  const plain = address.replace(/^::ffff:/, '')
  return isIPv4(plain) ? plain : address
}

/** Starts listening. @returns the port @throws Error when it is in use */
export function listen(server: Server, { host, port }: Pick<ListenOptions, 'host' | 'port'>): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      const address = server.address()
      resolve(typeof address === 'object' && address ? address.port : port)
    })
  })
}

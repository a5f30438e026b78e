/** Serves HTTPS: HTTP/2 and HTTP/1.1 on one port, with the certificate of the requested server name (RFC 6066, 3). */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Http2SecureServer, type ServerHttp2Session, createSecureServer } from 'node:http2'
import type { Socket } from 'node:net'
import type { SecureContext } from 'node:tls'
import type { Logger } from 'pino'
import { type ClientRequest, type ClientResponse, isHttp2 } from '../exchange.ts'
import { type ListenOptions, type Listener, limitConnections, serverOptions } from '../listener.ts'
import { sendPage } from '../pages.ts'
import type { ProxyDeps } from '../admission.ts'
import { handleRequest } from '../proxy.ts'
import { handleUpgrade } from '../upgrade.ts'
import { handleConnect } from './websocket.ts'

const streamsPerConnection = 256
const lookMs = 50

/** Listens for HTTPS. @throws Error when the port is in use */
export async function listenTls(
  options: ListenOptions & { readonly find: (hostname: string) => Promise<SecureContext | undefined> },
  proxy: ProxyDeps,
  log: Logger,
): Promise<Listener> {
  const server = createSecureServer({
    allowHTTP1: true,
    // `enableConnectProtocol` allows WebSockets over HTTP/2 (RFC 8441).
    settings: { enableConnectProtocol: true, maxConcurrentStreams: streamsPerConnection },
    SNICallback(name, answer) {
      options.find(name.toLowerCase()).then(
        context => (context ? answer(null, context) : answer(new Error(`no certificate for ${name}`))),
        (cause: unknown) => answer(cause instanceof Error ? cause : new Error(String(cause))),
      )
    },
  })
  Object.assign(server, serverOptions)
  serve(server, proxy, log)
  limitConnections(server, options, proxy.trusts)
  const close = trackSecure(server)
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port, options.host, resolve)
  })
  const address = server.address()
  return { port: typeof address === 'object' && address ? address.port : options.port, stop: close }
}

function serve(server: Http2SecureServer, proxy: ProxyDeps, log: Logger): void {
  const failed = (request: ClientRequest, response: ClientResponse) => (cause: unknown) => {
    log.error({ err: cause, host: request.headers.host }, 'a request failed inside the gateway')
    if (!response.headersSent) sendPage(request, response, 'bad_gateway')
    else response.destroy()
  }
  server.on('request', (request, response) => {
    handleRequest(proxy, request, response).catch(failed(request, response))
  })
  server.on('connect', (request: ClientRequest, response: ClientResponse | Socket) => {
    // Refuse CONNECT over HTTP/1.1: it requests a forward proxy, which the gateway is not.
    if (!('writeHead' in response) || !isHttp2(response)) return void response.destroy()
    handleConnect(proxy, request, response).catch(failed(request, response))
  })
  server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    handleUpgrade(proxy, request, socket, head).catch((cause: unknown) => {
      log.error({ err: cause, host: request.headers.host }, 'an upgrade failed inside the gateway')
      socket.destroy()
    })
  })
  // Errors are not logged, because clients often connect without TLS or disconnect during the handshake.
  server.on('tlsClientError', () => {})
}

/**
 * Tracks connections. Returns a function that closes idle ones at once, and the others when their requests have ended.
 */
function trackSecure(server: Http2SecureServer): (drainMs: number) => Promise<void> {
  const sockets = new Set<Socket>()
  const sessions = new Set<ServerHttp2Session>()
  const busy = new Map<Socket, number>()
  let stopping = false
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  server.on('session', session => {
    sessions.add(session)
    session.once('close', () => sessions.delete(session))
  })
  const http1 = new Set<Socket>()
  server.prependListener('request', (request: ClientRequest, response: ClientResponse) => {
    if (isHttp2(response)) return
    const { socket } = request
    http1.add(socket)
    busy.set(socket, (busy.get(socket) ?? 0) + 1)
    if (stopping) (response satisfies ServerResponse).shouldKeepAlive = false
    response.once('close', () => busy.set(socket, (busy.get(socket) ?? 1) - 1))
    socket.once('close', () => {
      http1.delete(socket)
      busy.delete(socket)
    })
  })
  return async drainMs => {
    stopping = true
    const closed = new Promise<void>(resolve => server.close(() => resolve()))
    // Closing a session sends GOAWAY: the session accepts no new streams, and ends after the last one (RFC 9113, 6.8).
    for (const session of sessions) session.close()
    const closeIdle = () => {
      for (const socket of http1) if ((busy.get(socket) ?? 0) === 0) socket.destroy()
      for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy()
    }
    closeIdle()
    const looking = setInterval(closeIdle, lookMs)
    const cut = setTimeout(() => {
      for (const session of sessions) session.destroy()
      for (const socket of sockets) socket.destroy()
    }, drainMs)
    await closed
    clearInterval(looking)
    clearTimeout(cut)
  }
}

/**
 * Passes requests for a WebSocket to the router, so that they go through the same checks as all others and can be
 * refused with an ordinary response. @fastify/websocket is not used: it opens the connection before the handler runs.
 */
import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { type WebSocket, WebSocketServer } from 'ws'
import { maxMessageBytes } from './socket.ts'

export interface Upgrades {
  /** Returns whether the request asks for a WebSocket with this subprotocol. */
  has(raw: IncomingMessage, protocol: string): boolean
  /** Completes the handshake with this subprotocol. Resolves with undefined if the handshake failed. */
  accept(raw: IncomingMessage, response: ServerResponse, protocol: string): Promise<WebSocket | undefined>
}

/**
 * Requests that ask to upgrade to another protocol, such as those of curl for HTTP/2, are answered as if they had no
 * `Upgrade` header.
 */
export const wantsSocket = (raw: IncomingMessage) => raw.headers.upgrade?.toLowerCase() === 'websocket'

export function takeUpgrades(app: FastifyInstance): Upgrades {
  const waiting = new WeakMap<IncomingMessage, { readonly socket: Socket; readonly head: Buffer }>()
  const server = new WebSocketServer({
    noServer: true,
    maxPayload: maxMessageBytes,
    perMessageDeflate: false,
    clientTracking: false,
    handleProtocols: (offered, raw) => protocolOf(raw, offered),
  })
  const chosen = new WeakMap<IncomingMessage, string>()
  const protocolOf = (raw: IncomingMessage, offered: Set<string>) => {
    const protocol = chosen.get(raw)
    return protocol !== undefined && offered.has(protocol) ? protocol : false
  }
  app.server.on('upgrade', (raw: IncomingMessage, socket: Socket, head: Buffer) => {
    socket.on('error', () => socket.destroy())
    takeCredential(raw)
    const response = new ServerResponse(raw)
    response.shouldKeepAlive = false
    response.assignSocket(socket)
    // The router has sent a response, so the request was refused. Close the socket here, since Node no longer manages
    // it.
    response.once('finish', () => socket.end())
    waiting.set(raw, { socket, head })
    app.routing(raw, response)
  })
  return {
    has: (raw, protocol) => waiting.has(raw) && offeredBy(raw).includes(protocol),
    async accept(raw, response, protocol) {
      const connection = waiting.get(raw)
      if (!connection) throw new Error('BUG: the request does not ask for a WebSocket')
      waiting.delete(raw)
      chosen.set(raw, protocol)
      response.detachSocket(connection.socket)
      return new Promise(resolve => {
        connection.socket.once('close', () => resolve(undefined))
        server.handleUpgrade(raw, connection.socket, connection.head, resolve)
      })
    },
  }
}

const offeredBy = (raw: IncomingMessage) =>
  (raw.headers['sec-websocket-protocol'] ?? '')
    .split(',')
    .map(name => name.trim())
    .filter(Boolean)

const bearer = 'bearer.'

/** Browsers cannot set `Authorization` on a WebSocket, so the credential may be offered as a subprotocol. */
function takeCredential(raw: IncomingMessage): void {
  const credential = offeredBy(raw).find(name => name.startsWith(bearer))
  if (credential !== undefined && raw.headers.authorization === undefined)
    raw.headers.authorization = `Bearer ${credential.slice(bearer.length)}`
}

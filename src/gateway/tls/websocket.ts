/** WebSockets over HTTP/2 (RFC 8441): the client sends an extended CONNECT, and the app gets an ordinary upgrade. */
import { randomBytes } from 'node:crypto'
import type { Http2ServerResponse } from 'node:http2'
import { type ClientRequest, newExchange } from '../exchange.ts'
import { clientAddress } from '../headers.ts'
import type { ProxyDeps } from '../admission.ts'
import { joinStreams, openUpgrade } from '../upgrade.ts'

/** Response headers with the results that client and app have negotiated. */
const negotiated = ['sec-websocket-protocol', 'sec-websocket-extensions'] as const

export async function handleConnect(
  deps: ProxyDeps,
  request: ClientRequest,
  response: Http2ServerResponse,
): Promise<void> {
  const { stream } = response
  stream.on('error', () => stream.destroy())
  if (request.headers[':protocol'] !== 'websocket') {
    response.writeHead(501)
    response.end()
    return
  }
  const exchange = newExchange(request, response, clientAddress(request, deps.trusts))
  const key = randomBytes(16).toString('base64')
  const desired = ['Connection', 'Upgrade', 'Upgrade', 'websocket', 'Sec-WebSocket-Key', key]
  const agreed = await openUpgrade(deps, exchange, stream, desired)
  if (!agreed) return
  const headers: Record<string, string | number> = { ':status': 200 }
  for (const name of negotiated) {
    const value = agreed.answer.headers[name]
    if (value !== undefined) headers[name] = value
  }
  stream.respond(headers)
  joinStreams(stream, agreed)
}

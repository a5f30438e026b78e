/**
 * Forwards gRPC over HTTP/2 without TLS (prior knowledge, RFC 9113, 3.3), because HTTP/1.1 supports neither its
 * trailers nor its bidirectional streams. One connection per backend.
 */
import { type IncomingHttpHeaders, type OutgoingHttpHeaders, constants } from 'node:http2'
import type { Route } from '../contract/gateway.ts'
import { type Exchange, isHttp2 } from './exchange.ts'
import { faultOf } from './faults.ts'
import type { GrpcSessions } from './grpc-sessions.ts'
import { forwardHeaders, peerOf } from './headers.ts'
import { type ProxyDeps, refuse } from './admission.ts'

export const isGrpc = ({ request, response }: Exchange) =>
  isHttp2(response) && (request.headers['content-type'] ?? '').startsWith('application/grpc')

/**
 * Forwards a gRPC request. It is never retried, because the client may already have streamed a part of it.
 * @param sessions the gateway's HTTP/2 connections
 */
export function forwardGrpc(deps: ProxyDeps, sessions: GrpcSessions, exchange: Exchange, route: Route): void {
  const { request, response } = exchange
  const target = deps.pools.pick(route)
  if (!isHttp2(response) || !target) return refuse(exchange, 'starting')
  exchange.vmId = target.backend.vmId
  exchange.tries++
  const use = deps.pools.begin(target)
  const attempt = deps.attempts.attempt(route, target.backend.vmId)
  const client = response.stream
  const upstream = sessions.of(target).request(requestHeaders(deps, exchange), { endStream: false })
  exchange.abort = () => upstream.close(constants.NGHTTP2_CANCEL)
  upstream.once('trailers', headers => response.addTrailers(plain(headers)))
  upstream.once('response', (headers, flags) => {
    deps.pools.answered(target)
    attempt.answered(headers[':status'] ?? 502)
    exchange.answeredMs = performance.now()
    if (client.destroyed) return
    const isLast = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0
    // In a "Trailers-Only" response of gRPC, the headers are the last frame.
    if (isLast) return client.respond(plain(headers), { endStream: true })
    const { ':status': status = 502, ...rest } = headers
    response.writeHead(status, plain(rest))
    upstream.on('data', (chunk: Buffer) => (exchange.bytes += chunk.length))
    upstream.pipe(response)
  })
  upstream.once('error', (error: Error) => {
    if (!client.destroyed) attempt.failed()
    deps.pools.failed(target, faultOf(error))
    if (client.headersSent) client.close(constants.NGHTTP2_INTERNAL_ERROR)
    else refuse(exchange, 'bad_gateway')
  })
  upstream.once('close', () => {
    exchange.abort = undefined
    use.end()
  })
  request.on('data', (chunk: Buffer) => (exchange.bytesIn += chunk.length)).pipe(upstream)
}

/** Copies the headers, because Node.js does not send a headers object that it has returned itself. */
const plain = (headers: IncomingHttpHeaders): OutgoingHttpHeaders => ({ ...headers })

function requestHeaders(deps: ProxyDeps, exchange: Exchange): OutgoingHttpHeaders {
  const { request, secure } = exchange
  const flat = forwardHeaders(request, { trusted: deps.trusts(peerOf(request)), secure })
  const headers: Record<string, string | string[]> = {
    [constants.HTTP2_HEADER_METHOD]: request.method ?? 'POST',
    [constants.HTTP2_HEADER_PATH]: request.url ?? '/',
    [constants.HTTP2_HEADER_SCHEME]: 'http',
    // gRPC requires this header; `trailers` is the only value that HTTP/2 allows.
    te: 'trailers',
  }
  for (let at = 0; at + 1 < flat.length; at += 2) {
    const [name, value] = [flat[at]!.toLowerCase(), flat[at + 1]!]
    const key = name === 'host' ? constants.HTTP2_HEADER_AUTHORITY : name
    const before = headers[key]
    headers[key] = before === undefined ? value : [...(Array.isArray(before) ? before : [before]), value]
  }
  return headers
}

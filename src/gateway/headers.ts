import { hasSeveralHosts } from '../lib/one-host.ts'
import type { ClientRequest } from './exchange.ts'

/** Headers that concern a single connection and must not be forwarded (RFC 9110, 7.6.1). */
const hopByHop = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
])
const ours = new Set([
  // Written only by the gateway, because servers differ in how they interpret duplicates of these headers.
  'host',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
  'x-forwarded-port',
  'x-real-ip',
  'forwarded',
  // Not forwarded, because the gateway itself responds with 100 Continue.
  'expect',
])

/** Returns the host with its port as the client named it (in HTTP/2 `:authority`; RFC 9113, 8.3.1). */
const authorityOf = ({ headers }: ClientRequest): string | undefined => {
  const authority = headers[':authority'] ?? headers.host
  return typeof authority === 'string' ? authority : undefined
}

/**
 * Returns the request's host in lower case, without the port; undefined if the request has none, a malformed one, or
 * several.
 */
export function hostnameOf(request: ClientRequest): string | undefined {
  const host = authorityOf(request)
  if (!host || hasSeveralHosts(request.rawHeaders)) return undefined
  const match = /^([A-Za-z0-9.-]{1,253})(?::\d{1,5})?$/.exec(host)
  return match?.[1]?.toLowerCase().replace(/\.$/, '')
}

const plainAddress = (address: string) => (address.startsWith('::ffff:') ? address.slice(7) : address)
export const peerOf = (request: ClientRequest) => plainAddress(request.socket.remoteAddress ?? '')

/**
 * Returns the client's IP address: the peer's, or behind trusted proxies the rightmost address in `X-Forwarded-For`
 * that is not a trusted proxy.
 */
export function clientAddress(request: ClientRequest, trusts: (address: string) => boolean): string {
  const peer = peerOf(request)
  if (!trusts(peer)) return peer
  const chain = (single(request.headers['x-forwarded-for']) ?? '').split(',').map(one => one.trim())
  return chain.findLast(address => address !== '' && !trusts(address)) ?? peer
}

export interface ForwardOptions {
  /** Whether the peer is a trusted proxy, whose `X-Forwarded-*` headers are kept. */
  readonly trusted: boolean
  readonly secure: boolean
}

/**
 * Returns the headers for the backend as a flat list of names and values: the client's headers without those that
 * concern only the connection, and the `X-Forwarded-*` headers.
 */
export function forwardHeaders(request: ClientRequest, options: ForwardOptions): string[] {
  const { rawHeaders } = request
  const named = namedByConnection(request.headers.connection)
  const authority = authorityOf(request) ?? ''
  const headers = ['Host', authority]
  let cookies = 0
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!
    const lower = name.toLowerCase()
    if (ours.has(lower) || hopByHop.has(lower) || lower.startsWith(':') || named?.includes(lower)) continue
    // Forward the cookie header once: HTTP/2 may split it (RFC 9113, 8.2.3), and Node.js has joined the parts.
    if (lower === 'cookie' && cookies++ > 0) continue
    headers.push(name, lower === 'cookie' ? (request.headers.cookie ?? '') : rawHeaders[at + 1]!)
  }
  const peer = peerOf(request)
  const before = options.trusted ? request.headers['x-forwarded-for'] : undefined
  const proto = (options.trusted && single(request.headers['x-forwarded-proto'])) || (options.secure ? 'https' : 'http')
  headers.push('X-Forwarded-For', before ? `${before}, ${peer}` : peer)
  headers.push('X-Forwarded-Proto', proto, 'X-Forwarded-Host', authority)
  return headers
}

/** Returns the header names listed in `Connection`; undefined for its two most common values, which name no header. */
function namedByConnection(connection: string | undefined): string[] | undefined {
  if (!connection || connection === 'keep-alive' || connection === 'close') return undefined
  return connection.split(',').map(name => name.trim().toLowerCase())
}

const single = (value: string | string[] | undefined) => (Array.isArray(value) ? value[0] : value)

type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>

/**
 * Returns the response headers without those that concern only the connection. Names are in lower case, as undici
 * returns them.
 */
export function answerHeaders(headers: AnswerHeaders): Record<string, string | string[]> {
  const named = namedByConnection(single(headers['connection']))
  const kept: Record<string, string | string[]> = {}
  for (const name in headers) {
    const value = headers[name]
    if (value !== undefined && !hopByHop.has(name) && !named?.includes(name)) kept[name] = value
  }
  return kept
}

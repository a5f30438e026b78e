import type { IncomingMessage } from 'node:http'

/** RFC 9110, 7.6.1: they speak about one connection and must not be forwarded. */
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
])
const ours = new Set([
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
  'x-forwarded-port',
  'x-real-ip',
  'forwarded',
])

/** The request's host without its port, lower case; undefined when there is none or it is malformed. */
export function hostnameOf(request: IncomingMessage): string | undefined {
  const host = request.headers.host
  if (!host) return undefined
  const match = /^([A-Za-z0-9.-]{1,253})(?::\d{1,5})?$/.exec(host)
  return match?.[1]?.toLowerCase().replace(/\.$/, '')
}

export interface ForwardOptions {
  readonly trusted: boolean
  readonly upgrade?: boolean
}

/** Flat name/value list for the backend: what the client sent, less the connection's own, plus who it came from. */
export function forwardHeaders(request: IncomingMessage, options: ForwardOptions): string[] {
  const named = new Set((request.headers.connection ?? '').split(',').map(name => name.trim().toLowerCase()))
  const headers: string[] = []
  const { rawHeaders } = request
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!
    const lower = name.toLowerCase()
    if (ours.has(lower)) continue
    if (options.upgrade ? false : hopByHop.has(lower) || named.has(lower)) continue
    // The proxy answers 100-continue itself, so the backend must not be asked to.
    if (lower === 'expect') continue
    headers.push(name, rawHeaders[at + 1]!)
  }
  const peer = (request.socket.remoteAddress ?? '').replace(/^::ffff:/, '')
  const before = options.trusted ? request.headers['x-forwarded-for'] : undefined
  headers.push('X-Forwarded-For', before ? `${before}, ${peer}` : peer)
  headers.push('X-Forwarded-Proto', (options.trusted && single(request.headers['x-forwarded-proto'])) || 'http')
  headers.push('X-Forwarded-Host', request.headers.host ?? '')
  return headers
}

const single = (value: string | string[] | undefined) => (Array.isArray(value) ? value[0] : value)

/** Names and values of an answer, less the connection's own. */
export function answerHeaders(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Record<string, string | string[]> {
  const kept: Record<string, string | string[]> = {}
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined && !hopByHop.has(name.toLowerCase())) kept[name] = value
  return kept
}

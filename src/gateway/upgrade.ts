/**
 * Upgraded connections (WebSocket): the request goes to the backend as it came, and from then on bytes are copied both
 * ways. The backend's own answer, 101 or a refusal, reaches the client untouched.
 */
import type { IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import type { Duplex } from 'node:stream'
import { forwardHeaders, hostnameOf } from './headers.ts'
import { type Page, pages } from './pages.ts'
import type { ProxyDeps } from './proxy.ts'

const connectTimeoutMs = 2000

export async function handleUpgrade(
  deps: ProxyDeps,
  request: IncomingMessage,
  client: Duplex,
  head: Buffer,
): Promise<void> {
  client.on('error', () => client.destroy())
  const hostname = hostnameOf(request)
  const found = hostname ? deps.table.find(hostname) : undefined
  if (!found) return refuse(client, hostname ? 'not_found' : 'bad_host')
  const gone = new AbortController()
  client.once('close', () => gone.abort())
  const route = found.state === 'sleeping' ? await deps.wake(found, gone.signal) : found
  const target = route && deps.pools.pick(route)
  if (!target) return refuse(client, found.state === 'sleeping' ? 'asleep' : 'starting')

  const endTraffic = deps.traffic.begin(found.appId)
  const endLoad = deps.pools.begin(target.backend)
  const upstream = connect({ host: target.backend.host, port: target.backend.port, noDelay: true })
  let answered = false
  upstream.setTimeout(connectTimeoutMs, () => upstream.destroy(new Error('connect timeout')))
  upstream.once('connect', () => {
    upstream.setTimeout(0)
    const headers = forwardHeaders(request, { trusted: deps.trusts(request.socket.remoteAddress ?? ''), upgrade: true })
    const lines = [`${request.method} ${request.url} HTTP/1.1`]
    for (let at = 0; at + 1 < headers.length; at += 2) lines.push(`${headers[at]}: ${headers[at + 1]}`)
    upstream.write(`${lines.join('\r\n')}\r\n\r\n`)
    if (head.length > 0) upstream.write(head)
    upstream.pipe(client)
    client.pipe(upstream)
  })
  upstream.once('data', () => {
    answered = true
  })
  const finish = () => {
    endTraffic(!answered)
    endLoad()
    upstream.destroy()
    if (!answered && !client.destroyed) refuse(client, 'bad_gateway')
    else client.destroy()
  }
  upstream.once('close', finish)
  upstream.on('error', () => upstream.destroy())
  client.once('close', () => upstream.destroy())
}

function refuse(client: Duplex, page: Page): void {
  const { status, title, text } = pages[page]
  const body = `${title}. ${text}\n`
  client.end(
    `HTTP/1.1 ${status} ${title}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  )
}

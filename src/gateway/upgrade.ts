/**
 * Handles connections that switch protocols (WebSocket). The gateway sends its own upgrade request to the backend, and
 * copies bytes only after the backend has agreed (101). Otherwise a client could send further requests past the
 * gateway. A refusal is forwarded like any response.
 */
import { type IncomingMessage, ServerResponse, request as httpRequest } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Route } from '../contract/gateway.ts'
import type { Target } from './backends.ts'
import { type Exchange, isHttp2, newExchange } from './exchange.ts'
import { faultOf } from './faults.ts'
import { answerHeaders, clientAddress, forwardHeaders, peerOf } from './headers.ts'
import { type ProxyDeps, admit, awake, refuse, routeOf } from './admission.ts'

const answerTimeoutMs = 10_000
const maxTries = 3
/** How long a client may take to read the remaining data after its backend has closed. */
const lingerMs = 30_000

/** A backend that has agreed to switch protocols: its response and connection. */
export interface Agreement {
  readonly answer: IncomingMessage
  readonly socket: Duplex
  /** Data that the backend sent right after its response. */
  readonly head: Buffer
}
type Said = Agreement | { readonly answer: IncomingMessage; readonly socket: undefined }

/** Handles an upgrade request over HTTP/1.1 (RFC 9110, 7.8). */
export async function handleUpgrade(
  deps: ProxyDeps,
  request: IncomingMessage,
  client: Socket,
  head: Buffer,
): Promise<void> {
  // Sends responses of the gateway, and of a backend that refuses to switch protocols.
  const response = new ServerResponse(request)
  response.shouldKeepAlive = false
  response.assignSocket(client)
  response.once('finish', () => client.end())
  client.once('close', () => response.emit('close'))
  client.on('error', () => client.destroy())
  const exchange = newExchange(request, response, clientAddress(request, deps.trusts))
  const desired = ['Connection', 'Upgrade', 'Upgrade', request.headers.upgrade ?? 'websocket']
  const agreed = await openUpgrade(deps, exchange, client, desired)
  if (!agreed) return
  response.detachSocket(client)
  const { socket, answer } = agreed
  const lines = [`HTTP/1.1 101 ${answer.statusMessage || 'Switching Protocols'}`]
  for (let at = 0; at + 1 < answer.rawHeaders.length; at += 2)
    lines.push(`${answer.rawHeaders[at]}: ${answer.rawHeaders[at + 1]}`)
  client.write(`${lines.join('\r\n')}\r\n\r\n`)
  if (head.length > 0) socket.write(head)
  joinStreams(client, agreed)
}

/**
 * Copies in both directions until one side closes, then closes the other. The client is closed only after it has
 * received everything that the backend sent, however slowly it reads.
 */
export function joinStreams(client: Duplex, { socket, head }: Pick<Agreement, 'socket' | 'head'>): void {
  if (head.length > 0) client.write(head)
  client.on('error', () => socket.destroy()).once('close', () => socket.destroy())
  // Writing to a closed backend fails, but the client must still receive the remaining data.
  socket.on('error', () => socket.destroy())
  socket.once('close', () => (socket.readableEnded ? letFinish(client) : client.destroy()))
  socket.pipe(client)
  client.pipe(socket)
}

/**
 * Waits until the client has received everything. Keeps reading from the client meanwhile, because closing a connection
 * with unread data resets it and loses data in transit.
 */
function letFinish(client: Duplex): void {
  const late = setTimeout(() => client.destroy(), lingerMs).unref()
  client.once('close', () => clearTimeout(late)).resume()
}

/**
 * Asks a backend to switch protocols. Returns undefined if the backend refused, none was reachable, or the client
 * disconnected; a response has then been sent where possible.
 * @param client the connection; when it closes, the backend connection is closed, too
 * @param desired headers that request the other protocol
 */
export async function openUpgrade(
  deps: ProxyDeps,
  exchange: Exchange,
  client: Duplex,
  desired: readonly string[],
): Promise<Agreement | undefined> {
  let agreed = false
  client.once('close', () => {
    exchange.abort?.()
    const { response } = exchange
    deps.ended(exchange, agreed ? 101 : response.headersSent ? response.statusCode : 499)
  })
  const found = await routeOf(deps, exchange)
  if (client.destroyed) return undefined
  const route = admit(deps, exchange, found)
  exchange.response.once('close', () => exchange.leave?.())
  if (typeof route === 'string') return void refuse(exchange, route)
  const ready = await awake(deps, route, exchange)
  if (client.destroyed) return undefined
  if (!ready) return void refuse(exchange, route.state === 'sleeping' ? 'asleep' : 'starting')
  const said = await askAny(deps, exchange, client, ready, desired)
  if (!said) return client.destroyed ? undefined : void refuse(exchange, 'bad_gateway')
  if (said.socket) {
    agreed = true
    client.on('data', (chunk: Buffer) => (exchange.bytesIn += chunk.length)).pause()
    return said
  }
  passOn(exchange, said.answer)
  return undefined
}

function passOn({ response }: Exchange, answer: IncomingMessage): void {
  const [status, headers] = [answer.statusCode ?? 502, answerHeaders(answer.headers)]
  if (isHttp2(response)) response.writeHead(status, headers)
  else response.writeHead(status, headers)
  answer.pipe(response)
}

async function askAny(
  deps: ProxyDeps,
  exchange: Exchange,
  client: Duplex,
  route: Route,
  desired: readonly string[],
): Promise<Said | undefined> {
  const tried = new Set<string>()
  while (exchange.tries < maxTries && !client.destroyed) {
    const target = deps.pools.pick(route, tried)
    if (!target) return undefined
    exchange.tries++
    exchange.vmId = target.backend.vmId
    tried.add(target.key)
    const use = deps.pools.begin(target)
    const attempt = deps.attempts.attempt(route, target.backend.vmId)
    use.lasts()
    try {
      const said = await ask(deps, exchange, target, desired)
      deps.pools.answered(target)
      attempt.answered(said.answer.statusCode ?? 502)
      exchange.answeredMs = performance.now()
      hold(deps, exchange, target, said, use.end)
      return said
    } catch (cause) {
      use.end()
      const fault = cause instanceof Error ? faultOf(cause) : 'other'
      deps.pools.failed(target, fault)
      if (!client.destroyed) attempt.failed()
      if (fault !== 'unreached') return undefined
    }
  }
  return undefined
}

/** Counts the backend connection as a pending request, and closes the connection when its VM leaves. */
function hold(deps: ProxyDeps, exchange: Exchange, target: Target, said: Said, done: () => void): void {
  const stream = said.socket ?? said.answer
  const forget = deps.pools.onCut(target, () => stream.destroy())
  if (said.socket) said.socket.on('data', (chunk: Buffer) => (exchange.bytes += chunk.length)).pause()
  stream.once('close', () => {
    done()
    forget()
  })
}

function ask(deps: ProxyDeps, exchange: Exchange, target: Target, desired: readonly string[]): Promise<Said> {
  const { request } = exchange
  const { host, port } = target.backend
  const options = { trusted: deps.trusts(peerOf(request)), secure: exchange.secure }
  const headers = [...forwardHeaders(request, options), ...desired]
  const { promise, resolve, reject } = Promise.withResolvers<Said>()
  const path = request.headers[':path'] ?? request.url ?? '/'
  const upstream = httpRequest({ host, port, path: String(path), headers, agent: false, timeout: answerTimeoutMs })
  exchange.abort = () => upstream.destroy()
  upstream
    .once('upgrade', (answer, socket, head) => {
      socket.setTimeout(0)
      resolve({ answer, socket, head })
    })
    .once('response', answer => resolve({ answer, socket: undefined }))
    .once('timeout', () => upstream.destroy(Object.assign(new Error('no answer in time'), { code: 'ETIMEDOUT' })))
    .once('error', reject)
    .end()
  return promise
}

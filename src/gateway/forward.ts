/**
 * Sends a request to a backend, and streams in both directions. The response starts as soon as the backend's does. A
 * slow client slows down the backend instead of filling memory. A failed attempt is retried if that is safe.
 */
import type { Dispatcher } from 'undici'
import type { Route } from '../contract/gateway.ts'
import { type Target, type Use, backendKey } from './backends.ts'
import { type Exchange, flushHeaders, isGone, isHttp2, writeChunk } from './exchange.ts'
import { type Fault, faultOf } from './faults.ts'
import { answerHeaders, forwardHeaders, peerOf } from './headers.ts'
import type { Page } from './pages.ts'
import type { CountedAttempt } from './request-counts.ts'
import { type ProxyDeps, awake, refuse } from './admission.ts'

/** Maximum number of attempts for a request if no attempt reached a backend. */
const maxTries = 3
/** Maximum number of attempts for a request if an attempt may have reached an app. */
const maxBroken = 2
/**
 * How long to wait for a changed route: a VM that moved or was removed leaves its route shortly after its connections
 * break.
 */
const routeLagMs = 1500

/**
 * Maximum size of a body, in bytes, that is copied to be sent together with the headers: for larger ones, a separate
 * write costs less.
 */
const smallBytes = 8192
/**
 * How long the response headers are held back while no data of the body has arrived, unless the body is known to be
 * small: programs often write headers and body separately, and until the headers are sent, the request can be retried
 * if the VM moves.
 */
const holdHeadMs = 250
/** How long the first data of a body, and the headers of an event stream, are held back to wait for more data. */
const holdMs = 20

/** Methods that may be retried even if the first attempt had an effect (RFC 9110, 9.2.2). */
const idempotent = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'TRACE'])

export function forward(deps: ProxyDeps, exchange: Exchange, route: Route, tried: ReadonlySet<string>): void {
  const { request, response } = exchange
  if (isGone(response)) return
  const target = deps.pools.pick(route, tried)
  if (!target) return refuse(exchange, tried.size > 0 ? 'bad_gateway' : 'starting')
  exchange.vmId = target.backend.vmId
  exchange.tries++
  const use = deps.pools.begin(target)
  const attempt = deps.attempts.attempt(route, target.backend.vmId)
  const withBody = hasBody(exchange)
  // Count the body only in the first attempt: a retry sends the same body, of which nothing has been read yet.
  if (withBody && exchange.tries === 1) countBody(exchange)
  target.pool.dispatch(
    {
      path: request.url ?? '/',
      method: request.method ?? 'GET',
      headers: forwardHeaders(request, { trusted: deps.trusts(peerOf(request)), secure: exchange.secure }),
      body: withBody ? request : null,
    },
    answerTo(deps, exchange, { target, use, attempt }, fault => again(deps, exchange, { route, target, tried }, fault)),
  )
}

/**
 * Counts the bytes of the request body that the connection pool reads. A listener that is added before that of the pool
 * would start the stream too early.
 */
function countBody(exchange: Exchange): void {
  const { request } = exchange
  request.once('resume', () => request.on('data', (chunk: Buffer) => (exchange.bytesIn += chunk.length)))
}

/**
 * Returns whether the request has a body. In HTTP/2 no header announces a body: a stream that has not ended has one
 * (RFC 9113, 8.1).
 */
function hasBody({ request, response }: Exchange): boolean {
  const length = request.headers['content-length']
  if (length !== undefined) return length !== '0'
  if (isHttp2(response)) return !response.stream.endAfterHeaders
  return request.headers['transfer-encoding'] !== undefined
}

function answerTo(
  deps: ProxyDeps,
  exchange: Exchange,
  { target, use, attempt }: { readonly target: Target; readonly use: Use; readonly attempt: CountedAttempt },
  failed: (fault: Fault) => void,
): Dispatcher.DispatchHandler {
  const { response } = exchange
  /**
   * Sends the response headers. Called with the first bytes of the body, because until then a failed attempt can be
   * retried.
   */
  let head: (() => void) | undefined
  /**
   * The beginning of the body, held back in case the whole body is small: then a single write suffices, and a failed
   * attempt can be retried.
   */
  let first: Buffer | undefined
  let hold: NodeJS.Timeout | undefined
  const begin = () => {
    clearTimeout(hold)
    head?.()
    head = undefined
  }
  const release = () => {
    begin()
    if (first) writeChunk(response, first)
    else if (!response.writableEnded) flushHeaders(response)
    first = undefined
  }
  return {
    onRequestStart(controller) {
      exchange.abort = () => controller.abort(new Error('the client went away'))
      if (isGone(response)) exchange.abort()
    },
    onResponseStart(_controller, statusCode, headers, statusMessage) {
      if (statusCode < 200) return
      deps.pools.answered(target)
      attempt.answered(statusCode)
      exchange.answeredMs = performance.now()
      const kept = answerHeaders(headers)
      if (exchange.secure && deps.hsts) kept['strict-transport-security'] ??= deps.hsts
      head = () => {
        if (isHttp2(response)) response.writeHead(statusCode, kept)
        else response.writeHead(statusCode, statusMessage ?? '', kept)
      }
      const length = Number(headers['content-length'] ?? 0)
      // Wait for the whole body if it is short. Any other body may pause for long before its first or last byte.
      const isStream = String(headers['content-type'] ?? '').startsWith('text/event-stream')
      if (isStream) use.lasts()
      if (length === 0 || length > smallBytes) hold = setTimeout(release, isStream ? holdMs : holdHeadMs)
    },
    onResponseData(controller, chunk) {
      exchange.bytes += chunk.length
      if (head) {
        if (hold && !first) {
          clearTimeout(hold)
          hold = setTimeout(release, holdMs)
        }
        first = first ? Buffer.concat([first, chunk]) : chunk
        if (first.length > smallBytes) release()
        return
      }
      if (writeChunk(response, chunk)) return
      controller.pause()
      response.once('drain', () => controller.resume())
    },
    onResponseEnd() {
      exchange.abort = undefined
      use.end()
      begin()
      endWith(response, first)
      first = undefined
    },
    onResponseError(_controller, error) {
      exchange.abort = undefined
      clearTimeout(hold)
      use.end()
      if (isGone(response)) return
      const fault = faultOf(error)
      deps.pools.failed(target, fault)
      attempt.failed()
      if (response.headersSent) {
        response.destroy()
        return
      }
      head = undefined
      first = undefined
      exchange.bytes = 0
      exchange.answeredMs = undefined
      failed(fault)
    },
  }
}

/**
 * Ends the response. The last part of the body is passed as text, because Node.js then sends headers and small body in
 * one write.
 */
function endWith(response: Exchange['response'], last: Buffer | undefined): void {
  if (last === undefined) response.end()
  else if (isHttp2(response)) response.end(last)
  else response.end(last.toString('latin1'), 'latin1')
}

interface Attempt {
  readonly route: Route
  readonly target: Target
  /** Keys of the backends to which the request was already sent. */
  readonly tried: ReadonlySet<string>
}

/** Handles an attempt without a response: retries it if that is safe, otherwise responds with an error page. */
function again(deps: ProxyDeps, exchange: Exchange, { route, target, tried }: Attempt, fault: Fault): void {
  const method = exchange.request.method ?? ''
  const isSafe =
    !hasBody(exchange) &&
    (fault === 'unreached'
      ? exchange.tries < maxTries
      : fault === 'broken' && exchange.tries < maxBroken && idempotent.has(method))
  if (!isSafe) return refuse(exchange, pageFor[fault])
  const next = new Set([...tried, target.key])
  otherwise(deps, exchange, route, next).then(
    found => {
      if (found) forward(deps, exchange, found, next)
      // The route has not changed, so the backend only closed a keep-alive connection when the request was sent. Retry
      // on the same backend.
      else if (fault === 'broken') forward(deps, exchange, route, tried)
      else refuse(exchange, pageFor[fault])
    },
    () => refuse(exchange, pageFor[fault]),
  )
}

/** Waits until the route has a backend that was not tried yet. Returns undefined if there is none in time. */
export async function otherwise(
  deps: ProxyDeps,
  exchange: Exchange,
  { hostname }: Route,
  tried: ReadonlySet<string>,
): Promise<Route | undefined> {
  const hasOther = (now: Route) =>
    [...now.backends, ...(now.canary?.backends ?? [])].some(backend => !tried.has(backendKey(backend)))
  const changed = await deps.table.waitFor(
    hostname,
    now => now.state !== 'live' || hasOther(now),
    AbortSignal.timeout(routeLagMs),
  )
  return changed && awake(deps, changed, exchange)
}

export const pageFor = {
  unreached: 'bad_gateway',
  broken: 'bad_gateway',
  other: 'bad_gateway',
  late: 'timeout',
} as const satisfies Record<Fault, Page>

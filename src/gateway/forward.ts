/**
 * Sends a request to a backend and streams both ways. The answer starts as soon as the backend's does, and a slow
 * client slows down the backend instead of using memory. A failed attempt is retried if that is safe.
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

/** Maximum number of attempts that reached no backend. */
const maxTries = 3
/** Maximum number of attempts that may have reached an app. */
const maxBroken = 2
/** A VM that moved or was removed leaves its route shortly after its connections break. */
const routeLagMs = 1500

/** Up to this size copying a body costs less than a separate write. */
const smallBytes = 8192
/**
 * How long the head of an answer of unknown or greater length waits for its body. Programs that write head and body
 * separately can then be retried if their VM moves in between. For streams the delay does not matter.
 */
const holdHeadMs = 250
/** How long the beginning of such a body waits for the rest. */
const holdMs = 20

/** Methods that may be retried although the first attempt may have acted (RFC 9110, 9.2.2). */
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
  // Another try sends the same body, which nothing has read yet.
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

/** Counts what the pool reads. A listener that is added before the pool's would start the stream too early. */
function countBody(exchange: Exchange): void {
  const { request } = exchange
  request.once('resume', () => request.on('data', (chunk: Buffer) => (exchange.bytesIn += chunk.length)))
}

/** In HTTP/2 a body needs no header: a stream that has not ended has a body (RFC 9113, 8.1). */
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
  /** The head, sent with the first bytes of the body: until then a broken answer can be retried. */
  let head: (() => void) | undefined
  /**
   * The beginning of the body, held back in case it is complete: then one write suffices, and a broken answer can be
   * retried.
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
      // A short answer is waited for. Any other may pause for long before its first or last byte.
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

/** Passes the body as text, because Node then sends the headers and a small body in one write. */
function endWith(response: Exchange['response'], last: Buffer | undefined): void {
  if (last === undefined) response.end()
  else if (isHttp2(response)) response.end(last)
  else response.end(last.toString('latin1'), 'latin1')
}

interface Attempt {
  readonly route: Route
  readonly target: Target
  /** The backends tried before, by key. */
  readonly tried: ReadonlySet<string>
}

/** After an attempt without an answer: retries if that is safe, or else answers with a page. */
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
      // The route is unchanged: the backend closed a keep-alive connection at the moment of the request.
      else if (fault === 'broken') forward(deps, exchange, route, tried)
      else refuse(exchange, pageFor[fault])
    },
    () => refuse(exchange, pageFor[fault]),
  )
}

/** Returns the route once it has a backend that was not tried; undefined if it gets none in time. */
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

/**
 * One request through the gateway: find the route, wake the app if it sleeps, stream both ways. The answer starts as
 * soon as the backend's does; a slow client slows the backend down and not our memory.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Dispatcher } from 'undici'
import type { Route } from '../contract/gateway.ts'
import { type BackendPools, backendKey } from './backends.ts'
import { answerHeaders, forwardHeaders, hostnameOf } from './headers.ts'
import { type Page, sendPage } from './pages.ts'
import type { RouteTable } from './route-table.ts'
import type { Traffic } from './traffic.ts'

export interface ProxyDeps {
  readonly table: RouteTable
  readonly pools: BackendPools
  readonly traffic: Traffic
  readonly trusts: (address: string) => boolean
  /** Resolves with a route that has backends; undefined when it did not wake in time or the client left. */
  readonly wake: (route: Route, signal: AbortSignal) => Promise<Route | undefined>
}

/** How often a request is sent at most, to another backend each time. */
const maxTries = 3
/** A VM that moved, or went, leaves its route a moment after its connections break. */
const routeLagMs = 1500

/** Safe to send a second time when the first attempt never reached an app (RFC 9110, 9.2.2). */
const idempotent = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'TRACE'])

export async function handleRequest(
  deps: ProxyDeps,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const hostname = hostnameOf(request)
  if (!hostname) return sendPage(request, response, 'bad_host')
  const found = deps.table.find(hostname)
  if (!found) return sendPage(request, response, 'not_found')

  const end = deps.traffic.begin(found.appId)
  response.once('close', () => end(response.statusCode >= 500))
  const route = await awake(deps, found, response)
  if (!route)
    return response.destroyed
      ? undefined
      : sendPage(request, response, found.state === 'sleeping' ? 'asleep' : 'starting')
  forward(deps, route, request, response, new Set())
}

async function awake(deps: ProxyDeps, route: Route, response: ServerResponse): Promise<Route | undefined> {
  if (route.state === 'live') return route
  if (route.state !== 'sleeping') return undefined
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  return deps.wake(route, gone.signal)
}

function forward(
  deps: ProxyDeps,
  route: Route,
  request: IncomingMessage,
  response: ServerResponse,
  tried: ReadonlySet<string>,
): void {
  const target = deps.pools.pick(route, tried)
  if (response.destroyed) return
  if (!target) return sendPage(request, response, tried.size > 0 ? 'bad_gateway' : 'starting')
  const { backend, pool } = target
  const done = deps.pools.begin(backend)
  const hasBody = request.headers['content-length'] !== undefined || request.headers['transfer-encoding'] !== undefined
  const trusted = deps.trusts(request.socket.remoteAddress ?? '')

  const failBeforeAnswer = (error: Error) => {
    if (response.destroyed) return
    const again = !hasBody && idempotent.has(request.method ?? '') && isConnectionFault(error)
    if (!again || tried.size + 1 >= maxTries) return sendPage(request, response, pageFor(error))
    const next = new Set([...tried, backendKey(backend)])
    void otherwise(deps, route, response, next).then(found =>
      found ? forward(deps, found, request, response, next) : sendPage(request, response, pageFor(error)),
    )
  }
  const handler: Dispatcher.DispatchHandler = {
    onRequestStart(controller) {
      response.once('close', () => {
        if (!response.writableFinished) controller.abort(new Error('the client went away'))
      })
    },
    onResponseStart(controller, statusCode, headers, statusMessage) {
      if (statusCode < 200) return
      response.writeHead(statusCode, statusMessage ?? '', answerHeaders(headers))
      // Headers must not wait for the first byte of a slow body (event streams).
      response.flushHeaders()
      response.on('drain', () => controller.resume())
    },
    onResponseData(controller, chunk) {
      if (!response.write(chunk)) controller.pause()
    },
    onResponseEnd() {
      done()
      response.end()
    },
    onResponseError(_controller, error) {
      done()
      if (response.headersSent) response.destroy()
      else failBeforeAnswer(error)
    },
  }
  pool.dispatch(
    {
      path: request.url ?? '/',
      method: (request.method ?? 'GET') as Dispatcher.HttpMethod,
      headers: forwardHeaders(request, { trusted }),
      body: hasBody ? request : null,
    },
    handler,
  )
}

/** The route once it has a backend that was not tried; undefined when it gets none in time. */
async function otherwise(
  deps: ProxyDeps,
  { hostname }: Route,
  response: ServerResponse,
  tried: ReadonlySet<string>,
): Promise<Route | undefined> {
  const hasOther = (now: Route) => now.backends.some(backend => !tried.has(backendKey(backend)))
  const changed = await deps.table.waitFor(
    hostname,
    now => now.state !== 'live' || hasOther(now),
    AbortSignal.timeout(routeLagMs),
  )
  return changed && awake(deps, changed, response)
}

const codeOf = (error: Error) => ('code' in error && typeof error.code === 'string' ? error.code : '')

function isConnectionFault(error: Error): boolean {
  return [
    'ECONNREFUSED',
    'ECONNRESET',
    'EHOSTUNREACH',
    'EPIPE',
    'UND_ERR_CONNECT_TIMEOUT',
    'UND_ERR_SOCKET',
    'UND_ERR_CLOSED',
    'UND_ERR_DESTROYED',
  ].includes(codeOf(error))
}

const pageFor = (error: Error): Page => (codeOf(error) === 'UND_ERR_HEADERS_TIMEOUT' ? 'timeout' : 'bad_gateway')

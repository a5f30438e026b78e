/** Decides whether a request is forwarded: finds the route, applies the limits, wakes the app. */
import type { Route } from '../contract/gateway.ts'
import type { BackendPools } from './backends.ts'
import type { Exchange } from './exchange.ts'
import type { GrpcSessions } from './grpc-sessions.ts'
import { hostnameOf } from './headers.ts'
import type { Limiter } from './limits.ts'
import { type Page, sendPage } from './pages.ts'
import type { AttemptCounter } from './request-counts.ts'
import type { RouteTable } from './route-table.ts'
import type { Traffic } from './traffic.ts'

/** What is needed to connect a client to an app, with any protocol. */
export interface RoutingDeps {
  readonly table: RouteTable
  readonly pools: BackendPools
  readonly traffic: Traffic
  readonly limiter: Limiter
  readonly trusts: (address: string) => boolean
  /**
   * Wakes the app. Resolves with a route that has backends; undefined when the app did not wake in time, or the client
   * disconnected.
   */
  readonly wake: (route: Route, signal: AbortSignal) => Promise<Route | undefined>
}

export interface ProxyDeps extends RoutingDeps {
  readonly grpc: GrpcSessions
  /**
   * Responds to challenges of a certificate authority. Returns false if the request is not a challenge for a
   * certificate of the platform.
   */
  readonly challenge: (exchange: Exchange) => Promise<boolean>
  readonly redirects: boolean
  /** Returns the HTTPS port that the request should be redirected to; undefined: no redirect. */
  readonly redirect: (exchange: Exchange) => Promise<number | undefined>
  /** Value of the header Strict-Transport-Security in responses over TLS; undefined: no such header. */
  readonly hsts: string | undefined
  readonly attempts: AttemptCounter
  /** Called when a request has ended. `status` 499: the client disconnected before the response. */
  readonly ended: (exchange: Exchange, status: number) => void
}

/** Responds with an error page of the gateway, and records the page for the log. */
export function refuse(exchange: Exchange, page: Page): void {
  exchange.page = page
  exchange.answeredMs ??= performance.now()
  if (!exchange.response.headersSent) sendPage(exchange.request, exchange.response, page)
}

/**
 * Returns the route of a request, or the error page to respond with. Queries control only if the cached route cannot
 * serve.
 */
export async function routeOf(deps: ProxyDeps, exchange: Exchange): Promise<Route | Page> {
  const { request } = exchange
  const hostname = hostnameOf(request)
  // Refuse a request target that is an absolute URL, because it contains a second host. Only forward proxies have to
  // accept such targets (RFC 9112, 3.2.2).
  if (!hostname || (request.url?.[0] !== '/' && request.method !== 'CONNECT')) return 'bad_host'
  exchange.hostname = hostname
  return (await deps.table.current(hostname)) ?? 'not_found'
}

/**
 * Admits a request, or returns the error page to respond with. Call this only while the client is connected: an
 * admitted request counts against the limits until `leave` is called at its end.
 */
export function admit(deps: ProxyDeps, exchange: Exchange, route: Route | Page): Route | Page {
  if (typeof route === 'string') return route
  exchange.route = route
  const refusal = deps.limiter.enter(route.appId, exchange.client)
  if (refusal) {
    deps.traffic.refused(route.appId)
    return refusal === 'app' ? 'busy' : 'too_many'
  }
  const end = deps.traffic.begin(route.appId)
  exchange.leave = () => {
    deps.limiter.leave(route.appId, exchange.client)
    end(exchange.response.statusCode >= 500, exchange.bytes)
  }
  return route
}

/** Returns the route once it has backends, after waking the app if necessary; undefined if it gets none in time. */
export async function awake(deps: ProxyDeps, known: Route, { response }: Exchange): Promise<Route | undefined> {
  // Look the route up again: it may have changed since the request arrived, and a VM that is being moved gets no new
  // requests.
  const route = deps.table.find(known.hostname) ?? known
  if (route.state === 'live') return route
  if (route.state !== 'sleeping') return undefined
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  return deps.wake(route, gone.signal)
}

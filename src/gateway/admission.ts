/** What every kind of request goes through before it is forwarded: its route, the limits, the wake. */
import type { Route } from '../contract/gateway.ts'
import type { BackendPools } from './backends.ts'
import type { Exchange } from './exchange.ts'
import type { GrpcSessions } from './grpc-sessions.ts'
import { hostnameOf } from './headers.ts'
import type { Limiter } from './limits.ts'
import { type Page, sendPage } from './pages.ts'
import type { RouteTable } from './route-table.ts'
import type { Traffic } from './traffic.ts'

export interface ProxyDeps {
  readonly table: RouteTable
  readonly pools: BackendPools
  readonly traffic: Traffic
  readonly limiter: Limiter
  readonly trusts: (address: string) => boolean
  /** Resolves with a route that has backends; undefined when it did not wake in time or the client left. */
  readonly wake: (route: Route, signal: AbortSignal) => Promise<Route | undefined>
  readonly grpc: GrpcSessions
  /** Answers what a certificate authority asks; false: it was not for us. */
  readonly challenge: (exchange: Exchange) => Promise<boolean>
  readonly redirects: boolean
  /** Port of HTTPS when a request for this name should go there. */
  readonly redirect: (exchange: Exchange) => Promise<number | undefined>
  /** Value of Strict-Transport-Security for answers over TLS. */
  readonly hsts: string | undefined
  /** Called once a request is over; `status` 499 when the client left before there was an answer. */
  readonly ended?: ((exchange: Exchange, status: number) => void) | undefined
}

/** Sends a page of our own and keeps it in mind for the log. */
export function refuse(exchange: Exchange, page: Page): void {
  exchange.page = page
  if (!exchange.response.headersSent) sendPage(exchange.request, exchange.response, page)
}

/** The route of a request; else what to answer. Waits for control only where what is known cannot be served. */
export async function routeOf(deps: ProxyDeps, exchange: Exchange): Promise<Route | Page> {
  const { request } = exchange
  const hostname = hostnameOf(request)
  // The absolute form names a host of its own (RFC 9112, 3.2.2); only proxies need to take it.
  if (!hostname || (request.url?.[0] !== '/' && request.method !== 'CONNECT')) return 'bad_host'
  exchange.hostname = hostname
  return (await deps.table.current(hostname)) ?? 'not_found'
}

/** Lets a request in; else what to answer. Once let in, `leave` counts its end: the client must not have left before. */
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

/** The route once it has backends; undefined when it gets none in time. */
export async function awake(deps: ProxyDeps, known: Route, { response }: Exchange): Promise<Route | undefined> {
  // It may have changed since the request came: a VM that leaves gets no new requests.
  const route = deps.table.find(known.hostname) ?? known
  if (route.state === 'live') return route
  if (route.state !== 'sleeping') return undefined
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  return deps.wake(route, gone.signal)
}

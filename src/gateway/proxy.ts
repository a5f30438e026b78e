/**
 * Handles one request: finds the route, applies the limits, wakes a sleeping app, and forwards the request. The
 * exchange collects the data that is counted and logged at the end.
 */
import { type ProxyDeps, admit, awake, refuse, routeOf } from './admission.ts'
import { isChallenge } from './challenge.ts'
import { type ClientRequest, type ClientResponse, type Exchange, isGone, newExchange } from './exchange.ts'
import { forward } from './forward.ts'
import { forwardGrpc, isGrpc } from './grpc.ts'
import { clientAddress } from './headers.ts'
import { redirectToTls } from './tls/redirect.ts'

const untried: ReadonlySet<string> = new Set()

export async function handleRequest(deps: ProxyDeps, request: ClientRequest, response: ClientResponse): Promise<void> {
  const exchange = newExchange(request, response, clientAddress(request, deps.trusts))
  response.once('close', () => finish(deps, exchange))
  if (isChallenge(request.url) && (await deps.challenge(exchange))) return
  const found = await routeOf(deps, exchange)
  if (isGone(response)) return
  const route = admit(deps, exchange, found)
  if (typeof route === 'string') return refuse(exchange, route)
  const tlsPort = exchange.secure || !deps.redirects ? undefined : await deps.redirect(exchange)
  if (tlsPort !== undefined) return redirectToTls(exchange, tlsPort)
  const now = deps.table.find(route.hostname) ?? route
  const ready = now.state === 'live' ? now : await awake(deps, now, exchange)
  if (isGone(response)) return
  if (!ready) return refuse(exchange, now.state === 'sleeping' ? 'asleep' : 'starting')
  if (isGrpc(exchange)) forwardGrpc(deps, deps.grpc, exchange, ready)
  else forward(deps, exchange, ready, untried)
}

function finish(deps: ProxyDeps, exchange: Exchange): void {
  exchange.abort?.()
  exchange.leave?.()
  const { response } = exchange
  deps.ended(exchange, response.headersSent ? response.statusCode : 499)
}

/**
 * The gateway's only state: a cache of routes. It loads the whole table at start, applies published changes, and polls
 * periodically, because messages that are lost with a broken connection are not repeated. While control is unreachable,
 * the cached routes stay in use.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { abortable } from '../lib/abortable.ts'
import { coalesced } from '../lib/coalesced.ts'
import type { Bus } from '../bus/bus.ts'
import { type Route, gatewaySubjects, isHostname, tcpPortOf } from '../contract/gateway.ts'
import { readRoute, readRoutes } from '../contract/tolerant.ts'

const refreshMs = 10_000
const retryMs = 250
const requestTimeoutMs = 5000
/**
 * Minimum interval between two reloads of the table because of requests, so that requests to unknown hostnames cannot
 * overload control.
 */
const renewEveryMs = 50
/** Maximum time that a request waits for a reload of the table. */
const renewWithinMs = 2000

export interface RouteTable {
  find(hostname: string): Route | undefined
  /**
   * Returns the route of a hostname, after querying control if the cached one cannot serve: a change takes some
   * milliseconds to arrive, and a client may learn of it earlier from the API. While control does not respond, returns
   * the cached route immediately.
   */
  current(hostname: string): Promise<Route | undefined>
  /** Returns the routes of all hostnames of the app, without removed ones. */
  ofApp(appId: string): readonly Route[]
  /** Returns the routes of all hostnames. */
  all(): Iterable<Route>
  /** Returns the routes of TCP services that have a port of their own. */
  services(): Iterable<Route>
  /** Returns the version of the cached route, even of a removed one. */
  versionOf(hostname: string): number | undefined
  /** Resolves with the route as soon as `ready` accepts it; undefined when the signal aborts first. */
  waitFor(hostname: string, ready: (route: Route) => boolean, signal: AbortSignal): Promise<Route | undefined>
  /** Registers a callback for changed routes. */
  onChange(listener: (route: Route) => void): void
  /** Returns whether the whole table has been loaded at least once. */
  loaded(): boolean
  stop(): Promise<void>
}

export async function startRouteTable(deps: { readonly bus: Bus; readonly log: Logger }): Promise<RouteTable> {
  const routes = new Map<string, Route>()
  const hostnames = new Map<string, Set<string>>()
  const listeners = new Set<(route: Route) => void>()
  const stopping = new AbortController()
  let version = 0
  let failing = false

  const forget = ({ appId, hostname }: Route) => {
    const names = hostnames.get(appId)
    names?.delete(hostname)
    if (names?.size === 0) hostnames.delete(appId)
  }
  const apply = (route: Route) => {
    const known = routes.get(route.hostname)
    if (known && known.version >= route.version) return
    routes.set(route.hostname, route)
    if (known && known.appId !== route.appId) forget(known)
    if (route.state === 'gone') forget(route)
    else hostnames.set(route.appId, (hostnames.get(route.appId) ?? new Set()).add(route.hostname))
    for (const listener of listeners) listener(route)
  }
  const ask = async () => {
    const raw = await deps.bus.request(
      gatewaySubjects.routes,
      { after: version },
      { timeoutMs: requestTimeoutMs, signal: stopping.signal },
    )
    const answer = readRoutes(raw)
    for (const route of answer.routes) apply(route)
    version = answer.version
  }
  const refresh = async () => {
    try {
      await ask()
      if (failing) deps.log.info('control answers again; routes are up to date')
      failing = false
    } catch (cause) {
      if (!failing && !stopping.signal.aborted)
        deps.log.warn({ err: cause }, 'control does not answer; serving the routes known so far')
      failing = true
    }
  }
  const renew = coalesced(refresh, renewEveryMs)
  const subscription = await deps.bus.subscribe(gatewaySubjects.routeChanged, message => apply(readRoute(message.data)))
  const loop = (async () => {
    while (!stopping.signal.aborted) {
      await renew()
      await sleep(failing ? retryMs : refreshMs, undefined, { signal: stopping.signal }).catch(() => {})
    }
  })()

  const find = (hostname: string) => {
    const route = routes.get(hostname)
    return route?.state === 'gone' ? undefined : route
  }
  return {
    find,
    async current(hostname) {
      const known = find(hostname)
      if (failing || (known && known.state !== 'down')) return known
      await abortable(renew(), AbortSignal.any([stopping.signal, AbortSignal.timeout(renewWithinMs)])).catch(() => {})
      return find(hostname)
    },
    ofApp: appId => [...(hostnames.get(appId) ?? [])].flatMap(hostname => routes.get(hostname) ?? []),
    versionOf: hostname => routes.get(hostname)?.version,
    *all() {
      for (const route of routes.values()) if (route.state !== 'gone' && isHostname(route.hostname)) yield route
    },
    *services() {
      for (const route of routes.values())
        if (route.state !== 'gone' && tcpPortOf(route.hostname) !== undefined) yield route
    },
    waitFor(hostname, ready, signal) {
      const now = routes.get(hostname)
      if (now && ready(now)) return Promise.resolve(now)
      return new Promise(resolve => {
        const settle = (route: Route | undefined) => {
          listeners.delete(listener)
          signal.removeEventListener('abort', onAbort)
          resolve(route)
        }
        const listener = (route: Route) => {
          if (route.hostname === hostname && ready(route)) settle(route)
        }
        const onAbort = () => settle(undefined)
        if (signal.aborted) return resolve(undefined)
        listeners.add(listener)
        signal.addEventListener('abort', onAbort, { once: true })
      })
    },
    onChange: listener => void listeners.add(listener),
    loaded: () => version > 0,
    async stop() {
      stopping.abort()
      await subscription.stop()
      await loop
    },
  }
}

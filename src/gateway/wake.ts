import type { Logger } from 'pino'
import type { Bus } from '../bus/bus.ts'
import { type Route, gatewaySubjects } from '../contract/gateway.ts'
import type { RouteTable } from './route-table.ts'

const askTimeoutMs = 5000
const askAgainMs = 2000

/**
 * Returns a function that wakes a sleeping app. Control gets only one wake request per app and interval, however many
 * requests of clients wait.
 */
export function createWaker(deps: {
  readonly bus: Bus
  readonly table: RouteTable
  readonly log: Logger
  readonly timeoutMs: number
}): (route: Route, signal: AbortSignal) => Promise<Route | undefined> {
  /** Time of the last wake request for each app that has waiting requests. */
  const asked = new Map<string, number>()
  const ask = async (appId: string) => {
    const now = performance.now()
    if (now - (asked.get(appId) ?? -askAgainMs) < askAgainMs) return
    asked.set(appId, now)
    try {
      await deps.bus.request(gatewaySubjects.wake, { appId }, { timeoutMs: askTimeoutMs })
    } catch (cause) {
      deps.log.warn({ err: cause, appId }, 'cannot request the wake of an app; retrying')
    }
  }
  return async (route, signal) => {
    const waiting = new AbortController()
    const until = AbortSignal.any([signal, waiting.signal, AbortSignal.timeout(deps.timeoutMs)])
    const awake = deps.table.waitFor(route.hostname, now => now.state === 'live' && now.backends.length > 0, until)
    // Repeat the wake request while a client waits, because an app stays asleep if its wake fails.
    const asking = setInterval(() => void ask(route.appId), askAgainMs)
    void ask(route.appId)
    try {
      const found = await awake
      if (found) asked.delete(route.appId)
      return found
    } finally {
      clearInterval(asking)
      waiting.abort()
    }
  }
}

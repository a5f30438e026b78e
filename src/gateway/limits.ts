/**
 * Limits per app and per client IP address: concurrent requests, and requests per second (a token bucket with the
 * capacity of one second). A limit of 0 means no limit. Each gateway counts separately.
 */
export interface Limits {
  readonly appOpen: number
  readonly appPerSecond: number
  readonly clientOpen: number
  readonly clientPerSecond: number
}

/** Whose limit a refused request has reached: the app's, or the client address's. */
export type Refusal = 'app' | 'client'

export interface Limiter {
  /** Counts a request. Returns undefined if it is admitted; `leave` must then be called at its end. */
  enter(appId: string, client: string): Refusal | undefined
  leave(appId: string, client: string): void
  /** Number of tracked apps and clients; for tests. */
  readonly size: number
}

interface Meter {
  open: number
  tokens: number
  atMs: number
}

/** Meters of idle apps and clients are removed each time this many requests have been counted. */
const sweepEvery = 10_000

export function createLimiter(limits: Limits, nowMs: () => number): Limiter {
  const apps = createMeters(limits.appOpen, limits.appPerSecond, nowMs)
  const clients = createMeters(limits.clientOpen, limits.clientPerSecond, nowMs)
  return {
    enter(appId, client) {
      if (!clients.enter(client)) return 'client'
      if (apps.enter(appId)) return undefined
      clients.leave(client)
      return 'app'
    },
    leave(appId, client) {
      apps.leave(appId)
      clients.leave(client)
    },
    get size() {
      return apps.size() + clients.size()
    },
  }
}

function createMeters(most: number, perSecond: number, nowMs: () => number) {
  const meters = new Map<string, Meter>()
  let entered = 0
  const refill = (meter: Meter) => {
    const now = nowMs()
    meter.tokens = Math.min(perSecond, meter.tokens + ((now - meter.atMs) / 1000) * perSecond)
    meter.atMs = now
    return meter.tokens
  }
  const forgetIdle = () => {
    for (const [key, meter] of meters) if (meter.open === 0 && refill(meter) >= perSecond) meters.delete(key)
  }
  return {
    size: () => meters.size,
    enter(key: string): boolean {
      if (most === 0 && perSecond === 0) return true
      if (++entered % sweepEvery === 0) forgetIdle()
      let meter = meters.get(key)
      if (!meter) {
        meter = { open: 0, tokens: perSecond, atMs: nowMs() }
        meters.set(key, meter)
      }
      if (most > 0 && meter.open >= most) return false
      if (perSecond > 0) {
        if (refill(meter) < 1) return false
        meter.tokens--
      }
      meter.open++
      return true
    },
    leave(key: string): void {
      const meter = meters.get(key)
      if (!meter) return
      meter.open--
      if (meter.open === 0 && perSecond === 0) meters.delete(key)
    },
  }
}

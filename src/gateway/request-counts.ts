/**
 * Counts the ended requests of each app, for the history in the control plane. Its size is bounded by the number of apps
 * with requests since the last accepted report.
 */
import type { Route } from '../contract/gateway.ts'
import { type CanaryCounts, type RequestCounts, latencyBoundsMs, latencyBuckets } from '../contract/request-counts.ts'
import type { Exchange } from './exchange.ts'
import { pages } from './pages.ts'

export interface CountedRequest {
  readonly appId: string
  /** 499: the client disconnected before an answer. */
  readonly status: number
  readonly byGateway: boolean
  readonly bytesIn: number
  readonly bytesOut: number
  /** Undefined: there was no answer. */
  readonly latencyMs: number | undefined
}

export interface RequestCounter {
  add(request: CountedRequest): void
  /** Returns the counts since the last call. */
  take(): RequestCounts[]
  readonly canaries: CanaryCounter
}

export interface CanaryCounter {
  /**
   * Returns the counter of one attempt at a backend, which counts once: as failed if that was ever reported. Does nothing
   * for a backend that is not of a canary.
   */
  attempt(route: Route, vmId: string): CanaryAttempt
  take(): CanaryCounts[]
  /** True if something was counted since the last `take`. */
  hasCounts(): boolean
}

export interface CanaryAttempt {
  answered(status: number): void
  failed(): void
}

export function createRequestCounter(): RequestCounter {
  let apps = new Map<string, RequestCounts>()
  return {
    add({ appId, status, byGateway, bytesIn, bytesOut, latencyMs }) {
      let counts = apps.get(appId)
      if (!counts) {
        counts = emptyCounts(appId)
        apps.set(appId, counts)
      }
      const digit = Math.floor(status / 100) - 1
      if (status === 499 || counts.statuses[digit] === undefined) counts.aborted++
      else counts.statuses[digit]++
      if (byGateway) counts.gatewayErrors++
      counts.bytesIn += bytesIn
      counts.bytesOut += bytesOut
      if (latencyMs !== undefined) counts.latency[bucketOf(latencyMs)]!++
    },
    take() {
      const taken = [...apps.values()]
      apps = new Map()
      return taken
    },
    canaries: createCanaryCounter(),
  }
}

const uncounted: CanaryAttempt = { answered() {}, failed() {} }

function createCanaryCounter(): CanaryCounter {
  let counts = new Map<string, CanaryCounts>()
  const countsOf = (deploymentId: string) => {
    const known = counts.get(deploymentId) ?? { deploymentId, requests: 0, failed: 0 }
    counts.set(deploymentId, known)
    return known
  }
  return {
    attempt({ canary }, vmId) {
      if (!canary?.backends.some(backend => backend.vmId === vmId)) return uncounted
      const { deploymentId } = canary
      let state: 'pending' | 'answered' | 'failed' = 'pending'
      const failed = () => {
        if (state === 'failed') return
        const now = countsOf(deploymentId)
        if (state === 'pending') now.requests++
        now.failed++
        state = 'failed'
      }
      return {
        failed,
        answered(status) {
          if (status >= 500) return failed()
          if (state === 'pending') countsOf(deploymentId).requests++
          state = 'answered'
        },
      }
    },
    take() {
      const taken = [...counts.values()]
      counts = new Map()
      return taken
    },
    hasCounts: () => counts.size > 0,
  }
}

const emptyCounts = (appId: string): RequestCounts => ({
  appId,
  statuses: [0, 0, 0, 0, 0],
  aborted: 0,
  gatewayErrors: 0,
  bytesIn: 0,
  bytesOut: 0,
  latency: Array.from({ length: latencyBuckets }, () => 0),
})

/** Index of the first bound that is not exceeded, or of the bucket after the last. */
export function bucketOf(ms: number): number {
  let low = 0
  let high = latencyBoundsMs.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (ms <= latencyBoundsMs[middle]!) high = middle
    else low = middle + 1
  }
  return low
}

/** Returns undefined for requests that no app was found for. */
export function countedOf(exchange: Exchange, status: number): CountedRequest | undefined {
  const { route, page, startedMs, answeredMs, bytesIn, bytes } = exchange
  if (!route) return undefined
  const isAborted = status === 499
  return {
    appId: route.appId,
    status,
    byGateway: !isAborted && page !== undefined && pages[page].status === status,
    bytesIn,
    bytesOut: bytes,
    latencyMs: isAborted || answeredMs === undefined ? undefined : answeredMs - startedMs,
  }
}

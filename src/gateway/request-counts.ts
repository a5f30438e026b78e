/**
 * Counts the ended requests of each app, for the history in the control plane. Memory is bounded by the number of apps
 * with requests since the last accepted report.
 */
import type { Route } from '../contract/gateway.ts'
import {
  type CanaryCounts,
  type RequestCounts,
  type VmCounts,
  latencyBoundsMs,
  latencyBuckets,
} from '../contract/request-counts.ts'
import type { Exchange } from './exchange.ts'
import { pages } from './pages.ts'

export interface CountedRequest {
  readonly appId: string
  /** HTTP status of the response; 499: the client disconnected before it. */
  readonly status: number
  readonly byGateway: boolean
  readonly bytesIn: number
  readonly bytesOut: number
  /** Time until the first byte of the response; undefined: the request got no response. */
  readonly latencyMs: number | undefined
}

export interface RequestCounter {
  add(request: CountedRequest): void
  /** Returns the counts of all requests that ended since the last call. */
  take(): RequestCounts[]
  readonly attempts: AttemptCounter
}

/** Counts attempts to send requests to each VM and to each canary deployment. Canary counts are reported more often. */
export interface AttemptCounter {
  /**
   * Returns the counter of one attempt to send a request to a VM. The attempt counts once, and as failed if a failure
   * is ever reported.
   */
  attempt(route: Route, vmId: string): CountedAttempt
  /** Returns the counts of all attempts since the last call. */
  take(): { readonly canaries: CanaryCounts[]; readonly vms: VmCounts[] }
  /** Returns whether an attempt to send a request to a canary was counted since the last `take`. */
  hasCanary(): boolean
}

export interface CountedAttempt {
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
    attempts: createAttemptCounter(),
  }
}

function createAttemptCounter(): AttemptCounter {
  let canaries = new Map<string, CanaryCounts>()
  let vms = new Map<string, VmCounts>()
  const countsOf = ({ canary }: Route, vmId: string) => {
    const vm = vms.get(vmId) ?? { vmId, requests: 0, failed: 0 }
    vms.set(vmId, vm)
    if (!canary?.backends.some(backend => backend.vmId === vmId)) return [vm]
    const { deploymentId } = canary
    const known = canaries.get(deploymentId) ?? { deploymentId, requests: 0, failed: 0 }
    canaries.set(deploymentId, known)
    return [vm, known]
  }
  return {
    attempt(route, vmId) {
      let state: 'pending' | 'answered' | 'failed' = 'pending'
      const failed = () => {
        if (state === 'failed') return
        for (const now of countsOf(route, vmId)) {
          if (state === 'pending') now.requests++
          now.failed++
        }
        state = 'failed'
      }
      return {
        failed,
        answered(status) {
          if (status >= 500) return failed()
          if (state === 'pending') for (const now of countsOf(route, vmId)) now.requests++
          state = 'answered'
        },
      }
    },
    take() {
      const taken = { canaries: [...canaries.values()], vms: [...vms.values()] }
      canaries = new Map()
      vms = new Map()
      return taken
    },
    hasCanary: () => canaries.size > 0,
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

/**
 * Returns the index of the first bucket whose bound the latency does not exceed; otherwise that of the last bucket,
 * which has no bound.
 */
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

/** Returns the data to count; undefined for requests to unknown hostnames. */
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

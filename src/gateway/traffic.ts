import type { TrafficReport } from '../contract/gateway.ts'

/** Counts requests per app between two reports. Memory is bounded by the number of apps with routes. */
export interface Traffic {
  /** Counts the start of a request. Returns a function to call at its end, with whether the app failed. */
  begin(appId: string): (failed: boolean, bytes?: number) => void
  /** Counts a request that was refused because of a limit. */
  refused(appId: string): void
  /**
   * Returns the counts per app since the last call, with times by the clock `nowMs`. Apps without new, open or refused
   * requests are left out.
   */
  take(): TrafficReport['apps']
  /** Number of requests since the gateway started. */
  total(): number
}

interface Count {
  requests: number
  errors: number
  refused: number
  bytes: number
  open: number
  /** Sum of the times for which requests were open since the last report, in ms. */
  busyMs: number
  changedMs: number
  lastRequestAtMs: number
}

export function createTraffic(nowMs: () => number): Traffic {
  const apps = new Map<string, Count>()
  let total = 0
  const countOf = (appId: string): Count => {
    let count = apps.get(appId)
    if (!count) {
      const zero = { requests: 0, errors: 0, refused: 0, bytes: 0, open: 0, busyMs: 0 }
      count = { ...zero, changedMs: nowMs(), lastRequestAtMs: 0 }
      apps.set(appId, count)
    }
    return count
  }
  const advance = (count: Count, now: number) => {
    count.busyMs += count.open * (now - count.changedMs)
    count.changedMs = now
  }
  return {
    begin(appId) {
      const entry = countOf(appId)
      const startedMs = nowMs()
      advance(entry, startedMs)
      entry.requests++
      total++
      entry.open++
      entry.lastRequestAtMs = startedMs
      let ended = false
      return (failed, bytes = 0) => {
        if (ended) return
        ended = true
        const now = nowMs()
        advance(entry, now)
        entry.open--
        entry.bytes += bytes
        entry.lastRequestAtMs = now
        if (failed) entry.errors++
      }
    },
    refused(appId) {
      const entry = countOf(appId)
      entry.refused++
      // A refused request counts as activity, too: the app is not idle.
      entry.lastRequestAtMs = nowMs()
    },
    total: () => total,
    take() {
      const report: TrafficReport['apps'] = []
      const now = nowMs()
      for (const [appId, count] of apps) {
        advance(count, now)
        if (count.requests > 0 || count.open > 0 || count.refused > 0) {
          const { changedMs: _, ...reported } = count
          report.push({ appId, ...reported })
        }
        if (count.open === 0) apps.delete(appId)
        else Object.assign(count, { requests: 0, errors: 0, refused: 0, bytes: 0, busyMs: 0 })
      }
      return report
    },
  }
}

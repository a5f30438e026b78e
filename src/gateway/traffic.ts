import type { TrafficReport } from '../contract/gateway.ts'

/** Counts what each app was asked, between two reports. Bounded by the number of apps that are routed. */
export interface Traffic {
  /** Call at the start of a request; call the answer at its end with whether the app failed it. */
  begin(appId: string): (failed: boolean) => void
  /** What happened since the last call; apps with nothing new and nothing open are left out. */
  take(): TrafficReport['apps']
}

interface Count {
  requests: number
  errors: number
  open: number
  lastRequestAtMs: number
}

export function createTraffic(nowMs: () => number): Traffic {
  const apps = new Map<string, Count>()
  return {
    begin(appId) {
      let count = apps.get(appId)
      if (!count) {
        count = { requests: 0, errors: 0, open: 0, lastRequestAtMs: 0 }
        apps.set(appId, count)
      }
      const entry = count
      entry.requests++
      entry.open++
      entry.lastRequestAtMs = nowMs()
      let ended = false
      return failed => {
        if (ended) return
        ended = true
        entry.open--
        entry.lastRequestAtMs = nowMs()
        if (failed) entry.errors++
      }
    },
    take() {
      const report: TrafficReport['apps'] = []
      for (const [appId, count] of apps) {
        if (count.requests > 0 || count.open > 0) report.push({ appId, ...count })
        if (count.open === 0) apps.delete(appId)
        else {
          count.requests = 0
          count.errors = 0
        }
      }
      return report
    },
  }
}

/**
 * Counts the open requests of each app, from the reports of gateways, for the autoscaler. Every control plane keeps the
 * numbers in memory; they are never stored.
 */
import { type TrafficReport, trafficReportMs } from '../../contract/gateway.ts'

export interface RequestLoad {
  record(report: TrafficReport, nowMs: number): void
  /** Returns the mean number of an app's open requests, summed over the newest report of each gateway. */
  open(appId: string, nowMs: number): number
}

const shortMs = trafficReportMs / 2
/** Time without a report after which a gateway counts as gone, so that its open requests no longer count. */
const staleMs = 15_000

export function createRequestLoad(): RequestLoad {
  const gateways = new Map<string, { readonly heardMs: number; readonly open: ReadonlyMap<string, number> }>()
  return {
    record({ gatewayId, periodMs, apps }, nowMs) {
      // While a VM moves to another host, gateways report early. Such a report covers too short a time for a mean.
      if (periodMs !== undefined && periodMs < shortMs) return
      const mean = ({ busyMs, open }: TrafficReport['apps'][number]) => (busyMs && periodMs ? busyMs / periodMs : open)
      gateways.set(gatewayId, { heardMs: nowMs, open: new Map(apps.map(app => [app.appId, mean(app)])) })
      for (const [id, { heardMs }] of gateways) if (nowMs - heardMs > staleMs) gateways.delete(id)
    },
    open(appId, nowMs) {
      let sum = 0
      for (const { heardMs, open } of gateways.values()) if (nowMs - heardMs <= staleMs) sum += open.get(appId) ?? 0
      return sum
    },
  }
}

/**
 * Decides whether a VM that is about to move may leave, from the reports of the gateways. Every control plane keeps the
 * reports in memory; they are never stored.
 */
import { type TrafficReport, trafficReportMs } from '../../contract/gateway.ts'

/** Time without a report after which a gateway counts as gone: three missing reports. */
export const goneMs = 3 * trafficReportMs
/** Time since the start of this control plane after which every live gateway has reported to it. */
export const listenMs = trafficReportMs + 500

export interface DrainFacts {
  /** Time since gateways stopped sending new requests to the VM. */
  readonly heldForMs: number
  /** Time that open requests get to finish before the VM leaves its host anyway. */
  readonly boundMs: number
  /** Time since this control plane began to receive the gateways' reports. */
  readonly listeningForMs: number
  /** `open`: number of open requests to the VM; undefined: the gateway has not heard of the move yet. */
  readonly gateways: readonly { readonly silentForMs: number; readonly open: number | undefined }[]
}

export function drainDecision({ heldForMs, boundMs, listeningForMs, gateways }: DrainFacts): 'wait' | 'release' {
  if (heldForMs >= boundMs) return 'release'
  if (listeningForMs < listenMs) return 'wait'
  return gateways.some(one => one.silentForMs < goneMs && one.open !== 0) ? 'wait' : 'release'
}

export interface Drains {
  record(report: TrafficReport, nowMs: number): void
  facts(moveId: string, nowMs: number): Pick<DrainFacts, 'listeningForMs' | 'gateways'>
}

export function createDrains(startedMs: number): Drains {
  const gateways = new Map<string, { readonly heardMs: number; readonly open: ReadonlyMap<string, number> }>()
  return {
    record({ gatewayId, leaving = [], stops = false }, nowMs) {
      for (const [id, { heardMs }] of gateways) if (nowMs - heardMs >= goneMs) gateways.delete(id)
      if (stops) gateways.delete(gatewayId)
      else gateways.set(gatewayId, { heardMs: nowMs, open: new Map(leaving.map(one => [one.moveId, one.open])) })
    },
    facts: (moveId, nowMs) => ({
      listeningForMs: nowMs - startedMs,
      gateways: [...gateways.values()].map(({ heardMs, open }) => ({
        silentForMs: nowMs - heardMs,
        open: open.get(moveId),
      })),
    }),
  }
}

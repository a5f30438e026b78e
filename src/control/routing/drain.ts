/**
 * Whether a VM that is about to move may go: what each gateway has said of it. Kept in memory by every control plane, never
 * written.
 */
import { type TrafficReport, trafficReportMs } from '../../contract/gateway.ts'

/** Three reports: a gateway that has been silent for longer is gone. */
export const goneMs = 3 * trafficReportMs
/** After so long every gateway that lives has been heard. */
export const listenMs = trafficReportMs + 500

export interface DrainFacts {
  /** Since gateways were told to send no new requests. */
  readonly heldForMs: number
  /** How long requests under way may take. */
  readonly boundMs: number
  /** Since this control plane began to hear gateways. */
  readonly listeningForMs: number
  /** `open`: requests under way at the VM; undefined: the gateway has not heard of the move. */
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

/**
 * Request counts of apps, reported by gateways and stored by control. A report is a request on the bus: a gateway keeps
 * its counts until control confirms that they are stored.
 */
import { type Static, Type } from 'typebox'

/** Interval of a gateway's reports, and the longest period whose counts are lost if the gateway crashes. */
export const countsReportMs = 10_000

/** Maximum number of apps in one report; a gateway with more sends several reports. */
export const mostCountedApps = 500

/**
 * Upper bounds of the latency histogram in ms; one more bucket counts slower requests. All programs and database rows
 * use these buckets, so the histograms of different gateways and times can be added. Changing them needs another
 * column.
 */
export const latencyBoundsMs: readonly number[] = [
  ...[1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700],
  ...[1000, 1500, 2000, 3000, 5000, 7000, 10_000, 15_000, 20_000, 30_000, 60_000],
]
export const latencyBuckets = latencyBoundsMs.length + 1

const count = () => Type.Integer({ minimum: 0, maximum: 2 ** 40 })
const bytes = () => Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })

/** Requests that ended in the reported period. Each is in exactly one of `statuses` and `aborted`. */
export const RequestCounts = Type.Object({
  appId: Type.String({ format: 'uuid' }),
  /** Number of responses by the first digit of the status, from 1xx (WebSockets) to 5xx. */
  statuses: Type.Array(count(), { minItems: 5, maxItems: 5 }),
  /** Requests whose client disconnected before the response. */
  aborted: count(),
  /** Error responses of the gateway itself, because of a limit or because the app did not respond. */
  gatewayErrors: count(),
  /** Total size of the request bodies, in bytes; `bytesOut`: of the response bodies. */
  bytesIn: bytes(),
  bytesOut: bytes(),
  /**
   * Number of requests by latency, the time from the arrival of a request to the first byte of its response, in the
   * buckets of `latencyBoundsMs`.
   */
  latency: Type.Array(count(), { minItems: latencyBuckets, maxItems: latencyBuckets }),
})
export type RequestCounts = Static<typeof RequestCounts>

/** Interval of a gateway's reports while a canary gets requests. */
export const canaryReportMs = 2000

/** Number of attempts to send a request to the VMs of a canary. A retry counts as another attempt. */
export const CanaryCounts = Type.Object({
  deploymentId: Type.String({ format: 'uuid' }),
  requests: count(),
  /** Number of attempts with a 5xx response or without a complete response. */
  failed: count(),
})
export type CanaryCounts = Static<typeof CanaryCounts>

/** Number of attempts to send a request to one VM. A retry counts as another attempt. */
export const VmCounts = Type.Object({
  vmId: Type.String({ format: 'uuid' }),
  requests: count(),
  failed: count(),
})
export type VmCounts = Static<typeof VmCounts>

/**
 * A gateway's report of request counts. Control replies with `{}` once the counts are stored, and ignores a report that
 * it has already stored.
 */
export const CountsReport = Type.Object({
  /** Id that a gateway generates at each start. */
  reporterId: Type.String({ format: 'uuid' }),
  /** Number of the report, which increases by one with each report of the gateway. */
  seq: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  /** End of the reported period. */
  atMs: Type.Number(),
  apps: Type.Array(RequestCounts, { maxItems: mostCountedApps }),
  canaries: Type.Optional(Type.Array(CanaryCounts, { maxItems: mostCountedApps })),
  /** Counts per VM; absent in reports of an earlier release. */
  vms: Type.Optional(Type.Array(VmCounts, { maxItems: mostCountedApps })),
})
export type CountsReport = Static<typeof CountsReport>

/** Subject of a CountsReport; control replies with `{}`. */
export const countsSubject = 'control.in.counts'

/**
 * The requests of apps, as gateways count them and control stores them. A report is a request on the bus, so a gateway
 * keeps its counts until control has stored them.
 */
import { type Static, Type } from 'typebox'

/** Interval at which gateways report, and the longest period that is lost with a gateway. */
export const countsReportMs = 10_000

/** Apps in one report; a gateway with more sends several. */
export const mostCountedApps = 500

/**
 * Upper bounds of the latency histogram in ms; one more bucket counts what is slower. All programs and stored rows share
 * these buckets, so histograms of any gateways and times can be added. Changing them needs another column.
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
  /** By the first digit of the status, from 1xx (WebSockets) to 5xx. */
  statuses: Type.Array(count(), { minItems: 5, maxItems: 5 }),
  /** The client disconnected before an answer. */
  aborted: count(),
  /** Those of the errors that the gateway answered with itself, because of a limit or because the app did not answer. */
  gatewayErrors: count(),
  /** Bodies of requests and of answers. */
  bytesIn: bytes(),
  bytesOut: bytes(),
  /** Time from the arrival of a request to the first byte of its answer, in the buckets of `latencyBoundsMs`. */
  latency: Type.Array(count(), { minItems: latencyBuckets, maxItems: latencyBuckets }),
})
export type RequestCounts = Static<typeof RequestCounts>

/** Interval of the reports while a canary gets requests. */
export const canaryReportMs = 2000

/** Attempts of requests at the VMs of a canary. */
export const CanaryCounts = Type.Object({
  deploymentId: Type.String({ format: 'uuid' }),
  requests: count(),
  /** Answered with 5xx, or without a complete answer. */
  failed: count(),
})
export type CanaryCounts = Static<typeof CanaryCounts>

/** Attempts of requests at one VM, counted as those of a canary. */
export const VmCounts = Type.Object({
  vmId: Type.String({ format: 'uuid' }),
  requests: count(),
  failed: count(),
})
export type VmCounts = Static<typeof VmCounts>

/** Answered with {} once the counts are stored. A report that was stored before changes nothing. */
export const CountsReport = Type.Object({
  /** One start of one gateway. */
  reporterId: Type.String({ format: 'uuid' }),
  /** Increases by one with each report of the reporter. */
  seq: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  /** End of the period. */
  atMs: Type.Number(),
  apps: Type.Array(RequestCounts, { maxItems: mostCountedApps }),
  canaries: Type.Optional(Type.Array(CanaryCounts, { maxItems: mostCountedApps })),
  /** Absent in reports of an earlier release. */
  vms: Type.Optional(Type.Array(VmCounts, { maxItems: mostCountedApps })),
})
export type CountsReport = Static<typeof CountsReport>

/** CountsReport -> {} */
export const countsSubject = 'control.in.counts'

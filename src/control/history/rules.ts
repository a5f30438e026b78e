/** Decides which stored rows are read for a time range, and sums them to the points of a chart. Pure. */
import { latencyBoundsMs } from '../../contract/request-counts.ts'
import { hours, minutes, seconds } from '../../lib/duration.ts'

export const ranges = ['1h', '6h', '24h', '7d', '30d'] as const
export type Range = (typeof ranges)[number]

/** Periods of stored rows in seconds, finest first. Each is a multiple of the one before. */
export const steps = [30, 300, 3600] as const
export type Step = (typeof steps)[number]

/**
 * Rows and points of each time range. `rows`: period of the coarsest rows that are read. `stepMs`: distance between two
 * points, a multiple of `rows`.
 */
export const shapes: Readonly<
  Record<Range, { readonly rows: Step; readonly lengthMs: number; readonly stepMs: number }>
> = {
  '1h': { rows: 30, lengthMs: hours(1), stepMs: minutes(1) },
  '6h': { rows: 300, lengthMs: hours(6), stepMs: minutes(5) },
  '24h': { rows: 300, lengthMs: hours(24), stepMs: minutes(10) },
  '7d': { rows: 3600, lengthMs: hours(24 * 7), stepMs: hours(1) },
  '30d': { rows: 3600, lengthMs: hours(24 * 30), stepMs: hours(4) },
}

/** Delay after the end of a period by which all reports and samples of that period have arrived. */
const arrivalMs = seconds(12)

export const floorTo = (atMs: number, stepMs: number) => Math.floor(atMs / stepMs) * stepMs

export interface Window {
  readonly fromMs: number
  /** End of the window, exclusive. All counts before it have arrived, so that the last point is not too low. */
  readonly toMs: number
  readonly stepMs: number
}

export function windowOf(range: Range, nowMs: number): Window {
  const { lengthMs, stepMs } = shapes[range]
  const toMs = floorTo(nowMs - arrivalMs, seconds(steps[0]))
  return { fromMs: Math.ceil(toMs / stepMs) * stepMs - lengthMs, toMs, stepMs }
}

export interface Part {
  readonly step: Step
  readonly fromMs: number
  readonly toMs: number
}

/**
 * Splits a window into parts, each of which is read from the coarsest rows that exist for it. Recent times, which have
 * not been summed yet, are read from finer rows.
 */
export function partsOf(range: Range, { fromMs, toMs }: Window, rolledUntilMs: ReadonlyMap<number, number>): Part[] {
  const parts: Part[] = []
  let sinceMs = fromMs
  for (const step of steps.toReversed()) {
    if (step > shapes[range].rows) continue
    const untilMs = step === steps[0] ? toMs : Math.min(toMs, rolledUntilMs.get(step) ?? 0)
    if (untilMs > sinceMs) parts.push({ step, fromMs: sinceMs, toMs: untilMs })
    sinceMs = Math.max(sinceMs, untilMs)
  }
  return parts
}

export const countColumns = [
  ...(['status_1xx', 'status_2xx', 'status_3xx', 'status_4xx', 'status_5xx', 'aborted'] as const),
  ...(['gateway_errors', 'bytes_in', 'bytes_out'] as const),
] as const
export const sampleSums = [
  ...(['samples', 'cpu_sum', 'ram_sum', 'memory_sum', 'replicas_sum', 'rx_bytes', 'tx_bytes'] as const),
] as const
export const samplePeaks = ['cpu_peak', 'ram_peak'] as const

const added = [...countColumns, ...sampleSums] as const
/** Counts and measurements of an app in one period. */
export type Amounts = Record<(typeof added)[number] | (typeof samplePeaks)[number], number> & {
  latency: number[] | null
}
export type Row = Amounts & { readonly atMs: number }

export const nothing = (): Amounts => ({
  status_1xx: 0,
  status_2xx: 0,
  status_3xx: 0,
  status_4xx: 0,
  status_5xx: 0,
  aborted: 0,
  gateway_errors: 0,
  bytes_in: 0,
  bytes_out: 0,
  samples: 0,
  cpu_sum: 0,
  ram_sum: 0,
  memory_sum: 0,
  replicas_sum: 0,
  rx_bytes: 0,
  tx_bytes: 0,
  cpu_peak: 0,
  ram_peak: 0,
  latency: null,
})

function add(sum: Amounts, row: Amounts): void {
  for (const column of added) sum[column] += row[column]
  for (const column of samplePeaks) sum[column] = Math.max(sum[column], row[column])
  if (row.latency) {
    const before = sum.latency
    sum.latency = row.latency.map((count, bucket) => count + (before?.[bucket] ?? 0))
  }
}

export interface Bin {
  readonly atMs: number
  /** Length of the period that the point covers. The last one may be shorter than the others. */
  readonly seconds: number
  readonly amounts: Amounts
}

/** Returns every point of the window, including those without rows, and the sum of all points. */
export function binsOf(
  { fromMs, toMs, stepMs }: Window,
  rows: readonly Row[],
): { readonly bins: Bin[]; readonly total: Amounts } {
  const bins: Bin[] = []
  for (let atMs = fromMs; atMs < toMs; atMs += stepMs)
    bins.push({ atMs, seconds: (Math.min(atMs + stepMs, toMs) - atMs) / 1000, amounts: nothing() })
  const total = nothing()
  for (const row of rows) {
    const bin = bins[Math.floor((row.atMs - fromMs) / stepMs)]
    if (!bin) continue
    add(bin.amounts, row)
    add(total, row)
  }
  return { bins, total }
}

export const requestsOf = (a: Amounts) =>
  a.status_1xx + a.status_2xx + a.status_3xx + a.status_4xx + a.status_5xx + a.aborted

/**
 * Returns the latency that this share of the requests did not exceed, interpolated within its bucket; null without
 * requests. For requests above the last bound, that bound is returned.
 */
export function percentile(latency: readonly number[] | null, share: number): number | null {
  const count = latency?.reduce((sum, n) => sum + n, 0) ?? 0
  if (!latency || count === 0) return null
  const rank = share * count
  let below = 0
  for (const [bucket, inside] of latency.entries()) {
    if (inside > 0 && below + inside >= rank) {
      const upper = latencyBoundsMs[bucket]
      const lower = bucket === 0 ? 0 : latencyBoundsMs[bucket - 1]!
      if (upper === undefined) return lower
      return Math.round((lower + ((upper - lower) * (rank - below)) / inside) * 10) / 10
    }
    below += inside
  }
  return latencyBoundsMs.at(-1)!
}

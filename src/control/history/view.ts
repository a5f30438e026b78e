import { type Amounts, percentile, requestsOf } from './rules.ts'
import type { HistoryTotals } from './schema.ts'

export function amountsView(a: Amounts): HistoryTotals {
  const mean = (sum: number) => (a.samples === 0 ? null : sum / a.samples)
  const whole = (value: number | null) => value && Math.round(value)
  const tenth = (value: number | null) => value && Math.round(value * 10) / 10
  return {
    requests: requestsOf(a),
    status_1xx: a.status_1xx,
    status_2xx: a.status_2xx,
    status_3xx: a.status_3xx,
    status_4xx: a.status_4xx,
    status_5xx: a.status_5xx,
    aborted: a.aborted,
    gateway_errors: a.gateway_errors,
    bytes_in: a.bytes_in,
    bytes_out: a.bytes_out,
    latency_p50_ms: percentile(a.latency, 0.5),
    latency_p95_ms: percentile(a.latency, 0.95),
    latency_p99_ms: percentile(a.latency, 0.99),
    cpu_usage: tenth(mean(a.cpu_sum)),
    cpu_peak: a.samples === 0 ? null : tenth(a.cpu_peak),
    ram_used_bytes: whole(mean(a.ram_sum)),
    ram_peak_bytes: a.samples === 0 ? null : whole(a.ram_peak),
    memory_bytes: whole(mean(a.memory_sum)),
    replicas: tenth(mean(a.replicas_sum)),
    rx_bytes: a.rx_bytes,
    tx_bytes: a.tx_bytes,
  }
}

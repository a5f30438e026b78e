/** Live metrics of an app over the last minutes. Pure. */
import type { MetricsEvent } from '@mote/client'
import { windowSeconds } from '../../ui/window.ts'

/** Metrics of one deployment at one instant. */
export type Sample = Pick<MetricsEvent, 'at' | 'cpu_usage' | 'memory_mib' | 'ram_used_bytes' | 'rx_bytes' | 'tx_bytes'>

/** Metrics of the whole app at one instant. */
export interface Point {
  /** Time of the metrics, in seconds since 1970. */
  readonly at: number
  /** CPU usage: the mean of the app's deployments, 0 to 100. */
  readonly cpuPercent: number
  readonly ramBytes: number
  readonly memoryBytes: number
  /**
   * Bytes received per second since the previous point; null for the first point, and after a restart has reset the
   * counters.
   */
  readonly rxRate: number | null
  readonly txRate: number | null
  readonly rxBytes: number
  readonly txBytes: number
}

const sum = (samples: readonly Sample[], value: (sample: Sample) => number) =>
  samples.reduce((total, sample) => total + value(sample), 0)

/** Combines samples of one instant into a point for the app. */
export function pointOf(samples: readonly Sample[], before: Point | undefined): Point {
  const at = Math.max(...samples.map(sample => Date.parse(sample.at) / 1000))
  const rxBytes = sum(samples, sample => sample.rx_bytes)
  const txBytes = sum(samples, sample => sample.tx_bytes)
  const seconds = before ? at - before.at : 0
  const rate = (now: number, then: number | undefined) =>
    then === undefined || seconds <= 0 || now < then ? null : (now - then) / seconds
  return {
    at,
    cpuPercent: sum(samples, sample => sample.cpu_usage) / samples.length,
    ramBytes: sum(samples, sample => sample.ram_used_bytes),
    memoryBytes: sum(samples, sample => sample.memory_mib) * 1024 * 1024,
    rxRate: rate(rxBytes, before?.rxBytes),
    txRate: rate(txBytes, before?.txBytes),
    rxBytes,
    txBytes,
  }
}

/** Appends the newest point and drops points outside the time window. */
export const withPoint = (points: readonly Point[], point: Point): readonly Point[] => [
  ...points.filter(one => one.at > point.at - windowSeconds - 5 && one.at < point.at),
  point,
]

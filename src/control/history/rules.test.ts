import { describe, expect, it } from 'vitest'
import { latencyBuckets } from '../../contract/request-counts.ts'
import { type Row, binsOf, nothing, partsOf, percentile, ranges, requestsOf, shapes, steps, windowOf } from './rules.ts'

const histogram = (counts: Readonly<Record<number, number>>) =>
  Array.from({ length: latencyBuckets }, (_, bucket) => counts[bucket] ?? 0)
const row = (atMs: number, change: Partial<Row>): Row => ({ ...nothing(), atMs, ...change })
const at = (text: string) => Date.parse(`2026-03-14T${text}Z`)

describe('percentiles', () => {
  it('are interpolated inside a bucket, and are null without requests', () => {
    expect(percentile(null, 0.5)).toBeNull()
    expect(percentile(histogram({}), 0.5)).toBeNull()
    expect(percentile(histogram({ 0: 10 }), 0.5)).toBe(0.5)
    // In this histogram, 90 requests took 10 to 15 ms, and 10 requests took 200 to 300 ms.
    const mixed = histogram({ 6: 90, 14: 10 })
    expect([percentile(mixed, 0.5), percentile(mixed, 0.9), percentile(mixed, 0.95)]).toEqual([12.8, 15, 250])
  })
  it('are never above the upper bound of the last bucket', () => {
    expect(percentile(histogram({ [latencyBuckets - 1]: 3 }), 0.99)).toBe(60_000)
  })
})

describe('the time window of each range', () => {
  it("ends with the last complete period and has at most 200 points, whose distance is a multiple of the rows' period", () => {
    for (const range of ranges) {
      const { fromMs, toMs, stepMs } = windowOf(range, at('10:07:50'))
      expect(toMs).toBe(at('10:07:30'))
      expect(stepMs % (shapes[range].rows * 1000)).toBe(0)
      const { bins } = binsOf({ fromMs, toMs, stepMs }, [])
      expect(bins.length).toBeLessThanOrEqual(200)
      expect(bins.reduce((sum, bin) => sum + bin.seconds, 0)).toBe((toMs - fromMs) / 1000)
    }
    expect(steps.every((step, index) => step % (steps[index - 1] ?? step) === 0)).toBe(true)
  })
  it('is read from the coarsest rows that exist for each part, without gaps or overlaps', () => {
    const rolled = new Map([
      [300, at('10:05:00')],
      [3600, at('10:00:00')],
    ])
    const window = windowOf('7d', at('10:07:50'))
    const parts = partsOf('7d', window, rolled)
    expect(parts).toEqual([
      { step: 3600, fromMs: window.fromMs, toMs: at('10:00:00') },
      { step: 300, fromMs: at('10:00:00'), toMs: at('10:05:00') },
      { step: 30, fromMs: at('10:05:00'), toMs: at('10:07:30') },
    ])
    expect(partsOf('1h', windowOf('1h', at('10:07:50')), rolled).map(part => part.step)).toEqual([30])
  })
})

it('rows are summed into the points of the chart to which their times belong', () => {
  const window = windowOf('1h', at('10:07:50'))
  const { bins, total } = binsOf(window, [
    row(at('10:06:00'), { status_2xx: 3, latency: histogram({ 1: 3 }), cpu_peak: 5 }),
    row(at('10:06:30'), { status_5xx: 1, aborted: 1, latency: histogram({ 2: 1 }), cpu_peak: 4 }),
    row(at('10:07:00'), { status_2xx: 1, samples: 2, cpu_sum: 30 }),
    row(at('08:00:00'), { status_2xx: 100 }),
  ])
  expect(bins.slice(-2).map(({ seconds, amounts }) => [seconds, requestsOf(amounts), amounts.cpu_peak])).toEqual([
    [60, 5, 5],
    [30, 1, 0],
  ])
  expect([requestsOf(total), total.latency?.slice(0, 3)]).toEqual([6, [0, 3, 1]])
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { autoscale, keepMs, type LoadSample } from './decide.ts'

const limits = { min: 1, max: 10, cpuThreshold: 80, memThreshold: 80 }
const stepMs = 5000

/**
 * Simulates an app with a total load that changes over time (1 = one fully used VM). Returns the number of replicas
 * after each step.
 */
function simulate(
  loadAt: (second: number) => number,
  seconds: number,
  start = 1,
  options: Partial<typeof limits> = {},
) {
  const bounds = { ...limits, ...options }
  const samples: LoadSample[] = []
  const replicas: number[] = []
  let desired = start
  let lastChangeMs: number | undefined
  for (let nowMs = 0; nowMs < seconds * 1000; nowMs += stepMs) {
    if ((samples[0]?.atMs ?? nowMs) < nowMs - keepMs) samples.shift()
    samples.push({ atMs: nowMs, cpu: Math.min(100, (loadAt(nowMs / 1000) / desired) * 100), memory: 20 })
    const next = autoscale({ ...bounds, nowMs, samples, desired, lastChangeMs })
    if (next !== desired) lastChangeMs = nowMs
    desired = next
    replicas.push(desired)
  }
  return replicas
}
const changes = (replicas: readonly number[]) => replicas.filter((n, at) => at > 0 && n !== replicas[at - 1]).length

describe('the autoscaler', () => {
  it('changes nothing while the load is below the threshold', () => {
    expect(new Set(simulate(() => 1.5, 1200, 2))).toEqual(new Set([2]))
  })
  it('adds enough replicas for a sudden increase of the load within two minutes', () => {
    const replicas = simulate(second => (second < 60 ? 0.5 : 4), 300)
    expect(replicas[((60 + 120) * 1000) / stepMs]).toBeGreaterThanOrEqual(4)
    expect(replicas.at(-1)).toBeLessThanOrEqual(6)
  })
  it('adds replicas when each has too many open requests, regardless of CPU', () => {
    const sample = (atMs: number) => ({ atMs, cpu: 5, memory: 5, requests: 60 })
    const samples = [5000, 10_000, 15_000, 20_000].map(sample)
    const input = { ...limits, nowMs: 20_000, samples, desired: 2, lastChangeMs: undefined }
    expect(autoscale({ ...input, requestsPerReplica: 40 })).toBe(3)
    expect(autoscale({ ...input, requestsPerReplica: 60 })).toBe(2)
    expect(autoscale(input)).toBe(2)
  })
  it('scales down slowly, one replica at a time, and not below the minimum', () => {
    const replicas = simulate(() => 0.1, 1800, 5, { min: 2 })
    expect(replicas.at(-1)).toBe(2)
    for (const [at, n] of replicas.entries()) if (at > 0) expect((replicas[at - 1] ?? n) - n).toBeLessThanOrEqual(1)
    expect(replicas[60_000 / stepMs]).toBe(5)
  })
  it('changes nothing after a short spike of the load', () => {
    expect(changes(simulate(second => (second > 300 && second < 308 ? 3 : 1.4), 900, 2))).toBe(0)
  })
  it('does not flap when the load oscillates around the threshold', () => {
    expect(changes(simulate(second => 1.6 + 0.3 * Math.sin(second / 7), 3600, 2))).toBeLessThanOrEqual(2)
  })
  it("keeps enough replicas for a day's load with a peak at noon, and removes replicas at night", () => {
    // Load of a web shop at each hour of a day, as a number of fully used VMs; interpolated linearly between the hours.
    const hours = [
      1, 0.8, 0.6, 0.5, 0.5, 0.8, 1.5, 2.8, 4, 4.8, 5.4, 5.8, 6, 5.6, 5.2, 4.9, 4.6, 4.8, 5, 4.4, 3.4, 2.5, 1.8, 1.3,
    ]
    const at = (second: number) => {
      const hour = second / 3600
      const low = hours[Math.floor(hour) % 24] ?? 0
      return low + ((hours[(Math.floor(hour) + 1) % 24] ?? 0) - low) * (hour % 1)
    }
    const replicas = simulate(at, 86_400)
    const overloaded = replicas.filter((n, step) => at((step * stepMs) / 1000) > n).length
    expect(overloaded / replicas.length).toBeLessThan(0.01)
    expect(changes(replicas)).toBeLessThan(40)
    expect(Math.max(...replicas)).toBeLessThanOrEqual(9)
    expect(replicas.at(-1)).toBeLessThanOrEqual(3)
  })
  it('ignores a threshold of 0, and changes nothing without samples', () => {
    const samples = Array.from({ length: 10 }, (_, n) => ({ atMs: n * stepMs, cpu: 100, memory: 100 }))
    expect(
      autoscale({
        ...limits,
        cpuThreshold: 0,
        memThreshold: 0,
        nowMs: 50_000,
        samples,
        desired: 3,
        lastChangeMs: undefined,
      }),
    ).toBe(3)
    expect(autoscale({ ...limits, nowMs: 50_000, samples: [], desired: 3, lastChangeMs: undefined })).toBe(3)
  })
  it('never chooses fewer replicas than the minimum or more than the maximum', () => {
    fc.assert(
      fc.property(
        fc.record({
          min: fc.integer({ min: 0, max: 5 }),
          more: fc.integer({ min: 0, max: 5 }),
          desired: fc.integer({ min: 0, max: 20 }),
        }),
        fc.array(
          fc.record({
            cpu: fc.double({ min: 0, max: 100, noNaN: true }),
            memory: fc.double({ min: 0, max: 100, noNaN: true }),
          }),
        ),
        ({ min, more, desired }, loads) => {
          const max = Math.max(1, min + more)
          const samples = loads.map((load, n) => ({ ...load, atMs: n * stepMs }))
          const wanted = autoscale({
            ...limits,
            min,
            max,
            nowMs: loads.length * stepMs,
            samples,
            desired,
            lastChangeMs: undefined,
          })
          expect(wanted).toBeGreaterThanOrEqual(Math.max(1, min))
          expect(wanted).toBeLessThanOrEqual(max)
        },
      ),
    )
  })
})

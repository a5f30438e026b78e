/** Measures how long work blocks the event loop. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'

export interface Case {
  readonly name: string
  /** The source files that the case covers. */
  readonly files: readonly string[]
  run(): Promise<unknown>
}

const longestMs = 50

/**
 * The longest uninterrupted computation of the main thread, in CPU time, so that other processes on a busy machine do
 * not count.
 */
async function stallOf(work: () => Promise<unknown>): Promise<number> {
  let longest = 0
  let last = process.threadCpuUsage()
  const look = () => {
    const used = process.threadCpuUsage(last)
    last = process.threadCpuUsage()
    longest = Math.max(longest, (used.user + used.system) / 1000)
  }
  const timer = setInterval(look, 1)
  await work()
  await sleep(5)
  clearInterval(timer)
  return longest
}

const mostFactor = 3

/**
 * Processes on the same core also slow down computation: returns how much longer the same work takes now than
 * undisturbed.
 */
function busyFactor(): number {
  const text = `[${'{"a":[1,2,3]},'.repeat(40_000)}0]`
  const parse = () => {
    const before = process.threadCpuUsage()
    JSON.parse(text)
    const used = process.threadCpuUsage(before)
    return (used.user + used.system) / 1000
  }
  const times = Array.from({ length: 9 }, parse).toSorted((a, b) => a - b)
  return Math.min(mostFactor, Math.max(1, (times[4] ?? 1) / (times[0] ?? 1)))
}

/** Tests that no case blocks the event loop for long. */
export function testStalls(cases: readonly Case[]): void {
  describe('the event loop is not blocked', { timeout: 60_000 }, () => {
    it.each(cases)('by the worst of $name', async one => {
      // Other processes may delay a run, so use the best of several runs; a slow parser is slow in every run.
      let best = Number.POSITIVE_INFINITY
      let allowed = longestMs
      for (let tries = 0; tries < 3 && best > allowed; tries++) {
        best = Math.min(best, await stallOf(() => one.run()))
        allowed = Math.max(allowed, longestMs * busyFactor())
      }
      expect(best).toBeLessThan(allowed)
    })
  })
}

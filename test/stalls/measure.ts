/** Tests that work does not block the event loop for long. */
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
 * Returns how long `work` blocked the event loop at most, in milliseconds of the main thread's CPU time, so that other
 * processes on a busy machine do not count.
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
 * Returns how much other processes slow this thread down: the median CPU time of a fixed computation divided by its
 * minimum, between 1 and `mostFactor`.
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

/** Defines a test for each case. */
export function testStalls(cases: readonly Case[]): void {
  describe('the event loop is not blocked', { timeout: 60_000 }, () => {
    it.each(cases)('by the worst known input: $name', async one => {
      // Use the best of up to eight runs: other processes may delay one, whereas a slow parser is slow in all.
      let best = Number.POSITIVE_INFINITY
      let allowed = longestMs
      for (let tries = 0; tries < 8 && best > allowed; tries++) {
        best = Math.min(best, await stallOf(() => one.run()))
        allowed = Math.max(allowed, longestMs * busyFactor())
      }
      expect(best).toBeLessThan(allowed)
    })
  })
}

import { expect, it } from 'vitest'
import { bootAttempts, StepError } from './errors.ts'
import { Retry } from './retry.ts'

/** What becomes of one failure after the other. */
function ends(...codes: string[]): boolean[] {
  const retry = new Retry()
  return codes.map(code => retry.failed(new StepError(code, 'no')).final)
}

it('gives a boot two tries, whatever else fails between', () => {
  expect(bootAttempts).toBe(2)
  expect(ends('boot_failed', 'network_failed', 'boot_failed')).toEqual([false, false, true])
})

it('tries again without end what is a fault of the host, later and later', () => {
  expect(ends(...Array<string>(20).fill('network_failed'))).not.toContain(true)
  const retry = new Retry()
  const pauses = Array.from({ length: 12 }, () => {
    retry.failed(new StepError('network_failed', 'no'))
    return retry.pauseMs(1)
  })
  expect(pauses).toEqual(pauses.toSorted((a, b) => a - b))
  expect(pauses.at(-1)).toBe(30_000)
})

it('ends at once what no repetition mends', () => {
  expect(ends('snapshot_missing')).toEqual([true])
})

import { expect, it } from 'vitest'
import { runningText } from './progress.ts'

it('a running step shows its elapsed time and, if known, the remaining or usual time', () => {
  expect(runningText(4200)).toBe('4.20 s')
  expect(runningText(4200, undefined, 120_000)).toBe('4.20 s, usually takes about 2 minutes')
  expect(runningText(4000, 0.25)).toBe('4.00 s, 25 %, about 12 s left')
  expect(runningText(4000, 0)).toBe('4.00 s')
  expect(runningText(4000, 1.2)).toBe('4.00 s, 100 %, about 0 s left')
})

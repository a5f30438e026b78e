import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { duration, timed, watchSilence } from './progress.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe('progress of a build', () => {
  test('a silent step prints a line every 30 seconds until it ends', () => {
    const lines: string[] = []
    {
      using _watch = watchSilence(line => lines.push(line))
      vi.advanceTimersByTime(95_000)
    }
    vi.advanceTimersByTime(95_000)
    const after = ['30 s', '1 min 0 s', '1 min 30 s']
    expect(lines).toEqual(after.map(time => `still running; no output for ${time}`))
  })

  test('output of a step postpones the next progress line by 30 seconds', () => {
    const lines: string[] = []
    using watch = watchSilence(line => lines.push(line))
    for (let n = 0; n < 10; n++) {
      vi.advanceTimersByTime(29_000)
      watch.heard()
    }
    expect(lines).toEqual([])
    vi.advanceTimersByTime(30_000)
    expect(lines).toEqual(['still running; no output for 30 s'])
  })

  test('a step logs its duration', async () => {
    const lines: string[] = []
    const step = async () => {
      vi.advanceTimersByTime(1500)
      return 7
    }
    expect(await timed(line => lines.push(line), 'fetching', step)).toBe(7)
    expect(lines).toEqual(['fetching took 1.5 s'])
  })

  test('a failed step logs its duration, too', async () => {
    const lines: string[] = []
    const step = async () => {
      vi.advanceTimersByTime(125_000)
      throw new Error('no')
    }
    await expect(timed(line => lines.push(line), 'fetching', step)).rejects.toThrow('no')
    expect(lines).toEqual(['fetching took 2 min 5 s'])
  })

  test.each([
    [0, '0 s'],
    [449, '0.4 s'],
    [59_940, '59.9 s'],
    [59_960, '1 min 0 s'],
    [125_000, '2 min 5 s'],
  ])('%d ms is written as %s', (ms, text) => expect(duration(ms)).toBe(text))
})

import { expect, it } from 'vitest'
import { failureLine } from './failure-line.ts'

it('is the last line that reports a fault, without colors', () => {
  expect(
    failureLine([
      'added 12 packages',
      "\u001b[31mError: Cannot find module 'left-pad'\u001b[0m",
      '    at node:internal/modules/cjs/loader:1228:15',
      '',
      'npm error A complete log of this run can be found in: /root/.npm/_logs/debug-0.log',
      'still running; no output for 30 s',
      'building took 31 s',
      'the workload ended with code 1',
      'the program exited with code 1',
    ]),
  ).toBe("Error: Cannot find module 'left-pad'")
  expect(failureLine(['go: downloading', './main.go:7:2: undefined: x', 'exit status 1'])).toBe(
    './main.go:7:2: undefined: x',
  )
})

it('is what the failed command said, not that it failed, unless it said nothing', () => {
  const lines = ['npm run build', 'compiling', 'Error: no such module foo', 'npm run build: failed after 3 s']
  expect(failureLine([...lines, 'building took 31 s'])).toBe('Error: no such module foo')
  expect(failureLine(['sh check', 'made', 'sh check: failed after 0 s'])).toBe('sh check: failed after 0 s')
})

it('is the last line if none reports a fault, and nothing for an empty log', () => {
  expect(failureLine(['building', 'stopped here', ''])).toBe('stopped here')
  expect(failureLine(['', ' '])).toBeUndefined()
})

it('is bounded in length, lines and time', () => {
  expect(failureLine([`error ${'x'.repeat(100_000)}`])).toHaveLength(300)
  expect(failureLine(['error first', ...Array.from({ length: 80 }, () => 'fine')])).toBe('fine')
})

import { expect, test } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { HealthWatch } from './health-watch.ts'

const timing = { startingMs: 5, steadyMs: 5, calmMs: 5, calmAfter: 12, failingMs: 5, failuresAllowed: 3 }

test('a health check uses the first probe until it has passed once, then only the main probe', async () => {
  const changes: boolean[] = []
  const asked: string[] = []
  const first = [false, false, true]
  const watch = new HealthWatch(timing, healthy => void changes.push(healthy))
  watch.start(
    async () => {
      asked.push('whole')
      return false
    },
    async () => {
      asked.push('first')
      return first.shift() ?? true
    },
  )
  await until(async () => changes.length === 2, { what: 'it was well, and is not any more' })
  watch.stop()
  expect(changes).toEqual([true, false])
  expect(asked.slice(0, 4)).toEqual(['first', 'first', 'first', 'whole'])
  expect(asked.slice(3)).not.toContain('first')
})

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { VmObserved } from '../../contract/agent.ts'
import { newsOf } from './news.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const seen = (change: Partial<VmObserved> = {}): VmObserved => ({
  ...{ vmId: 'vm-1', generation: 1, state: 'preparing', healthy: false, endpoint: null, imageDigest: null },
  ...{ hypervisor: 'fake', error: null, exitCode: null, restartCount: 0, startedAtMs: null, steps: [], ...change },
})
const steps = (n: number) => Array.from({ length: n }, (_, at) => ({ name: `s${at}`, ms: 1 }))

test('says at once what somebody acts on, steps a moment later and together, and nothing twice', () => {
  const said: VmObserved[] = []
  const news = newsOf(one => void said.push(one))
  news.tell(seen())
  news.tell(seen())
  expect(said.length).toBe(1)
  for (const n of [1, 2, 3]) news.tell(seen({ steps: steps(n) }))
  expect(said.length).toBe(1)
  vi.runAllTimers()
  expect(said.slice(1).map(one => one.steps.length)).toEqual([3])
  news.tell(seen({ steps: steps(4) }))
  news.tell(seen({ steps: steps(4), healthy: true }))
  vi.runAllTimers()
  expect(said.slice(2)).toMatchObject([{ healthy: true, steps: { length: 4 } }])
})

test('says nothing any more once it is stopped', () => {
  const said: VmObserved[] = []
  const news = newsOf(one => void said.push(one))
  news.tell(seen())
  news.tell(seen({ steps: steps(1) }))
  news.stop()
  vi.runAllTimers()
  expect(said.length).toBe(1)
})

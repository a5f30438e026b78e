import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { VmObserved } from '../../contract/agent.ts'
import { newsOf } from './news.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const observed = (change: Partial<VmObserved> = {}): VmObserved => ({
  vmId: 'vm-1',
  generation: 1,
  state: 'preparing',
  healthy: false,
  endpoint: null,
  imageDigest: null,
  hypervisor: 'fake',
  error: null,
  exitCode: null,
  restartCount: 0,
  startedAtMs: null,
  steps: [],
  ...change,
})
const steps = (n: number) => Array.from({ length: n }, (_, at) => ({ name: `s${at}`, ms: 1 }))

test('of a start that goes on as it should, says how far it has come a moment later, together, and nothing twice', () => {
  const said: VmObserved[] = []
  const news = newsOf(one => void said.push(one))
  news.report(observed())
  for (const n of [1, 2, 3]) news.report(observed({ steps: steps(n) }))
  news.report(observed({ steps: steps(3), state: 'booting' }))
  expect(said).toEqual([])
  vi.runAllTimers()
  expect(said).toMatchObject([{ state: 'booting', steps: { length: 3 } }])
  news.report(observed({ steps: steps(3), state: 'booting' }))
  news.report(observed({ steps: steps(4), state: 'running' }))
  expect(said.length).toBe(1)
  news.report(observed({ steps: steps(4), state: 'running', healthy: true }))
  expect(said.slice(1)).toMatchObject([{ healthy: true, steps: { length: 4 } }])
  vi.runAllTimers()
  expect(said.length).toBe(2)
})

test.each<readonly [what: string, before: Partial<VmObserved>, after: Partial<VmObserved>]>([
  ['it is well', {}, { state: 'running', healthy: true }],
  ['it is not well any more', { state: 'running', healthy: true }, { state: 'running' }],
  ['it begins anew', { state: 'running', healthy: true }, { state: 'preparing' }],
  ['a step failed', {}, { error: { code: 'step_failed', message: 'no such image' } }],
  ['it goes on after a failure', { error: { code: 'step_failed', message: 'no such image' } }, {}],
  ['it crashed', {}, { state: 'crashed', error: { code: 'exited', message: 'ended' } }],
  ['it is paused', { state: 'running' }, { state: 'paused' }],
  ['it goes on after a pause', { state: 'paused' }, { state: 'running' }],
  ['it follows a newer wish', {}, { generation: 2 }],
  ['its program was started again', { state: 'running' }, { state: 'running', restartCount: 1 }],
  ['its program has ended', { state: 'running' }, { state: 'running', exitCode: 0 }],
  ['it stops', { state: 'running' }, { state: 'stopping' }],
  ['it has gone', { state: 'stopping' }, { state: 'absent' }],
])('says at once that %s', (_, before, after) => {
  const said: VmObserved[] = []
  const news = newsOf(one => void said.push(one))
  news.report(observed(before))
  vi.runAllTimers()
  news.report(observed(after))
  expect(said).toEqual([observed(before), observed(after)])
})

test('says nothing any more once it is stopped', () => {
  const said: VmObserved[] = []
  const news = newsOf(one => void said.push(one))
  news.report(observed())
  news.stop()
  vi.runAllTimers()
  expect(said).toEqual([])
})

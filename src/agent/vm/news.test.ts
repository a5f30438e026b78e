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

test('progress reports of a normal start are delayed, combined and published without duplicates', () => {
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
  ['the VM is healthy', {}, { state: 'running', healthy: true }],
  ['the VM is no longer healthy', { state: 'running', healthy: true }, { state: 'running' }],
  ['the VM starts again', { state: 'running', healthy: true }, { state: 'preparing' }],
  ['a step failed', {}, { error: { code: 'step_failed', message: 'no such image' } }],
  ['the VM continues after a failure', { error: { code: 'step_failed', message: 'no such image' } }, {}],
  ['the VM has crashed', {}, { state: 'crashed', error: { code: 'exited', message: 'ended' } }],
  ['the VM is paused', { state: 'running' }, { state: 'paused' }],
  ['the VM resumes', { state: 'paused' }, { state: 'running' }],
  ['the desired state is newer', {}, { generation: 2 }],
  ['its workload was restarted', { state: 'running' }, { state: 'running', restartCount: 1 }],
  ['its workload has exited', { state: 'running' }, { state: 'running', exitCode: 0 }],
  ['the VM is stopping', { state: 'running' }, { state: 'stopping' }],
  ['the VM is absent', { state: 'stopping' }, { state: 'absent' }],
])('a report is published immediately if it says that %s', (_, before, after) => {
  const said: VmObserved[] = []
  const news = newsOf(one => void said.push(one))
  news.report(observed(before))
  vi.runAllTimers()
  news.report(observed(after))
  expect(said).toEqual([observed(before), observed(after)])
})

test('no report is published after stop', () => {
  const said: VmObserved[] = []
  const news = newsOf(one => void said.push(one))
  news.report(observed())
  news.stop()
  vi.runAllTimers()
  expect(said).toEqual([])
})

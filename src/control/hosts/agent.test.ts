import { expect, test } from 'vitest'
import { createMemoryBus } from '../../bus/memory.ts'
import { type SessionRequest, subjects } from '../../contract/agent.ts'
import { agentClient } from './agent.ts'

test('session requests reach the agent, and answers that do not match the contract are refused', async () => {
  const bus = createMemoryBus()
  const received: unknown[] = []
  let answer: unknown
  await bus.serve(subjects.hostIn('host-1', 'vm.session'), data => {
    received.push(data)
    return answer
  })
  const client = agentClient(bus, 'host-1')
  const from = { stdout: 3, stderr: 0 }
  const read: SessionRequest = { action: 'read', sessionId: 'a', readerId: 'one', from, waitMs: 1_000 }
  const part = { stream: 'stdout', offset: 3, lostBytes: 0, data: 'YQ==' }
  answer = { action: 'read', parts: [part], end: null }
  expect(await client.session('vm-1', read)).toEqual(answer)
  expect(received).toEqual([{ vmId: 'vm-1', request: read }])
  for (const wrong of [
    { action: 'read', parts: [part] },
    { action: 'read', parts: [{ ...part, offset: -1 }], end: null },
    { action: 'read', parts: [], end: { reason: 'exited', code: 256, total: from } },
    { action: 'other' },
    null,
  ]) {
    answer = wrong
    await expect(client.session('vm-1', read)).rejects.toThrow()
  }
  await bus.close()
})

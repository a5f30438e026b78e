import { expect, test } from 'vitest'
import { createMemoryBus } from '../../bus/memory.ts'
import { decodeInput, encodeOutput, type SessionRequest, subjects } from '../../contract/agent.ts'
import { agentClient } from './agent.ts'

test('session requests reach the agent, and responses that do not match the schema are refused', async () => {
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

test('the output of a session arrives as bytes from a current agent, and as text from an older one', async () => {
  const bus = createMemoryBus()
  const parts = [{ stream: 'stdout', offset: 3, lostBytes: 0, data: Uint8Array.from([97, 98]) }] as const
  let answer: unknown = encodeOutput({ parts, end: null, windowBytes: 1 << 21 })
  const received: unknown[] = []
  await bus.serve(subjects.hostIn('host-1', 'vm.session'), data => {
    received.push(data)
    return answer
  })
  const client = agentClient(bus, 'host-1')
  const read = { sessionId: 'a', readerId: 'one', from: { stdout: 3, stderr: 0 }, waitMs: 1_000 }
  const seen = async () => {
    const { parts: arrived, ...rest } = await client.sessionOutput('vm-1', read)
    return [arrived.map(({ offset, data }) => [offset, Buffer.from(data).toString()]), rest]
  }
  expect(await seen()).toEqual([[[3, 'ab']], { end: null, windowBytes: 1 << 21, isBytes: true }])
  expect(received).toEqual([{ vmId: 'vm-1', request: { action: 'read', bytes: true, ...read } }])
  answer = { action: 'read', parts: [{ ...parts[0], data: 'YWI=' }], end: null }
  expect(await seen()).toEqual([[[3, 'ab']], { end: null, windowBytes: 1 << 18, isBytes: false }])
  for (const wrong of [Uint8Array.of(1, 2, 3), { action: 'input', receivedBytes: 1 }, null]) {
    answer = wrong
    await expect(client.sessionOutput('vm-1', read)).rejects.toThrow()
  }
  answer = { action: 'input', receivedBytes: 5 }
  expect(await client.sessionInput({ vmId: 'vm-1', sessionId: 'a', offset: 3 }, [Uint8Array.of(1, 2)])).toBe(5)
  expect(decodeInput(received.at(-1) as Uint8Array)).toMatchObject({ vmId: 'vm-1', sessionId: 'a', offset: 3 })
  await bus.close()
})

/** Tests session requests while the agent is upgraded and downgraded between them. */
import { expect, it, vi } from 'vitest'
import { createMemoryBus } from '../../bus/memory.ts'
import { decodeInput, encodeOutput, type SessionRequest, subjects, type VmSession } from '../../contract/agent.ts'
import { guestLine, patient } from './guest-line.ts'

vi.mock('../vms/index.ts', () => ({ vmById: async () => ({ want: 'running', hostId: 'host-1' }) }))

const from = { stdout: 0, stderr: 0 }
const read = { sessionId: 'a', readerId: 'one', from, waitMs: 1 }

it('session input is sent as bytes to an agent that has reported support for them, and as base64 text to an older agent', async () => {
  const bus = createMemoryBus()
  const kinds: string[] = []
  let isNew = true
  await bus.serve(subjects.hostIn('host-1', 'vm.session'), data => {
    if (data instanceof Uint8Array) {
      if (!isNew) throw new SyntaxError('Unexpected token in JSON')
      const { offset, data: bytes } = decodeInput(data)
      kinds.push(`bytes ${offset}`)
      return { action: 'input', receivedBytes: offset + bytes.length }
    }
    const { request } = data as VmSession
    return answerTo(request)
  })
  const answerTo = (request: SessionRequest) => {
    switch (request.action) {
      case 'list':
        return { action: 'list', sessions: [], ...(isNew ? { takesBytes: true } : {}) }
      case 'input': {
        const bytes = Buffer.from(request.data, 'base64')
        kinds.push(`text ${request.offset}`)
        return { action: 'input', receivedBytes: request.offset + bytes.length }
      }
      default:
        return isNew
          ? encodeOutput({ parts: [], end: null, windowBytes: 1 << 21 })
          : { action: 'read', parts: [], end: null }
    }
  }
  const line = patient(guestLine({ db: {} as never, bus }, 'vm-1'), () => performance.now())
  const write = (offset: number) => line.input({ sessionId: 'a', offset }, [Buffer.from('ab'), Buffer.from('c')])
  expect(await write(0)).toBe(3)
  await line.ask({ action: 'list' })
  expect(await write(3)).toBe(6)
  isNew = false
  expect(await write(6)).toBe(9)
  expect((await line.read(read)).windowBytes).toBe(1 << 18)
  expect(await write(9)).toBe(12)
  isNew = true
  expect((await line.read(read)).windowBytes).toBe(1 << 21)
  expect(await write(12)).toBe(15)
  expect(kinds).toEqual(['text 0', 'bytes 3', 'text 6', 'text 9', 'bytes 12'])
  await bus.close()
})

it('session input in base64 text is limited to the size that older agents accept; the returned position shows how much was written', async () => {
  const bus = createMemoryBus()
  await bus.serve(subjects.hostIn('host-1', 'vm.session'), data => {
    const { request } = data as { request: Extract<SessionRequest, { action: 'input' }> }
    return { action: 'input', receivedBytes: request.offset + Buffer.from(request.data, 'base64').length }
  })
  const line = guestLine({ db: {} as never, bus }, 'vm-1')
  expect(await line.input({ sessionId: 'a', offset: 0 }, [Buffer.alloc(200_000), Buffer.alloc(200_000)])).toBe(1 << 18)
  await bus.close()
})

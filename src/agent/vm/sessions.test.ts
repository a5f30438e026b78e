/** Serves the sessions of the guest's init, which runs as a process of this host. */
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Value } from 'typebox/value'
import { compiledInit, type TestGuest } from '../../../test/support/agent/guest-init.ts'
import { until } from '../../../test/support/wait.ts'
import { decodeOutput, SessionAnswer, SessionRequest } from '../../contract/agent.ts'
import { VmSessions } from './sessions.ts'

const skip = process.getuid?.() !== 0
let init: Awaited<ReturnType<typeof compiledInit>>
beforeAll(async () => {
  if (!skip) init = await compiledInit()
}, 60_000)
afterAll(async () => init?.[Symbol.asyncDispose]())

/** A client that reads a session as the control plane does. */
function client(sessions: VmSessions, readerId: string, offset = 0) {
  const from = { stdout: offset, stderr: 0 }
  let text = ''
  const sessionId = 'a'
  const serve = async (request: SessionRequest) => {
    expect(Value.Check(SessionRequest, request)).toBe(true)
    const answer = await sessions.serve(request)
    if (answer instanceof Uint8Array) throw new Error('BUG: bytes without a request for them')
    expect(Value.Check(SessionAnswer, answer)).toBe(true)
    return answer
  }
  const read = async (waitMs = 10_000) => {
    const answer = await serve({ action: 'read', sessionId, readerId, from, waitMs })
    if (answer.action !== 'read') throw new Error('BUG: another answer')
    return answer
  }
  return {
    from,
    serve,
    read,
    text: () => text,
    /** Reads until the text appears, or until the end. */
    async readUntil(wanted?: string) {
      for (;;) {
        const { parts, end } = await read()
        for (const { stream, offset: at, data } of parts) {
          const bytes = Buffer.from(data, 'base64')
          expect(at).toBe(from[stream])
          from[stream] = at + bytes.length
          text += bytes.toString()
        }
        if (end || (wanted !== undefined && text.includes(wanted))) return end
      }
    },
  }
}

const shell = (script: string) => ['sh', '-c', script]
const held = async ({ sessions }: TestGuest) => (await sessions.list())[0]?.held

describe.skipIf(skip)('sessions of a VM (needs root)', { timeout: 30_000 }, () => {
  it('can be opened, written to, read to the end and removed', async () => {
    await using guestInit = await init.start()
    const sessions = new VmSessions((await guestInit.connect()).sessions)
    const { serve, readUntil, text } = client(sessions, 'one')
    const sessionId = 'a'
    await serve({
      action: 'open',
      sessionId,
      command: shell('stty size; trap "echo bye" EXIT; cat'),
      tty: { rows: 3, columns: 4 },
    })
    await readUntil('3 4')
    await serve({ action: 'resize', sessionId, size: { rows: 30, columns: 40 } })
    const data = Buffer.from('hello\r').toString('base64')
    expect(await serve({ action: 'input', sessionId, offset: 0, data })).toEqual({ action: 'input', receivedBytes: 6 })
    await readUntil('hello\r\nhello')
    expect(await serve({ action: 'list' })).toMatchObject({
      sessions: [{ state: 'running', inputBytes: 6, tty: true }],
    })
    await serve({ action: 'close_input', sessionId })
    expect(await readUntil()).toMatchObject({ reason: 'exited', code: 0 })
    expect(text()).toMatch(/bye\r\n$/)
    await serve({ action: 'remove', sessionId })
    expect(await serve({ action: 'list' })).toMatchObject({ action: 'list', sessions: [], takesBytes: true })
    sessions.close()
  })

  it('pass input and output as bytes, in parts of at most 64 KiB', async () => {
    await using guestInit = await init.start()
    const sessions = new VmSessions((await guestInit.connect()).sessions)
    await sessions.serve({ action: 'open', sessionId: 'a', command: ['cat'], input: true })
    const sent = randomBytes(1 << 20)
    let stdout = 0
    const received: Uint8Array[] = []
    const write = async () => {
      for (let at = 0; at < sent.length; ) {
        const answer = await sessions.input({ sessionId: 'a', offset: at, data: sent.subarray(at, at + 300_000) })
        at = answer.action === 'input' ? answer.receivedBytes : 0
      }
    }
    const written = write()
    while (stdout < sent.length) {
      const from = { stdout, stderr: 0 }
      const request = { action: 'read', sessionId: 'a', readerId: 'one', from, waitMs: 5_000, bytes: true } as const
      const answer = await sessions.serve(request)
      if (!(answer instanceof Uint8Array)) throw new Error('BUG: not bytes')
      for (const { offset, data } of decodeOutput(answer).parts) {
        expect([offset, data.length <= 1 << 16]).toEqual([stdout, true])
        received.push(data)
        stdout += data.length
      }
    }
    await written
    expect(Buffer.concat(received).equals(sent)).toBe(true)
    sessions.close()
  })

  it('return the same output again until a read acknowledges it, at most one window of it', async () => {
    await using guestInit = await init.start()
    const sessions = new VmSessions((await guestInit.connect()).sessions)
    const { serve, read, from } = client(sessions, 'one')
    await serve({ action: 'open', sessionId: 'a', command: ['yes'] })
    const size = async () => (await read()).parts.reduce((sum, { data }) => sum + Buffer.from(data, 'base64').length, 0)
    const full = await until(async () => (await size()) === 1 << 18, { what: 'a full window' })
    expect([full, await size()]).toEqual([true, 1 << 18])
    from.stdout = 1001
    const [first] = (await read()).parts
    expect(first).toMatchObject({ offset: 1001, lostBytes: 0 })
    expect(Buffer.from(first?.data ?? '', 'base64').toString()).toMatch(/^\ny\ny/)
    sessions.close()
  })

  it('keep unacknowledged output after a read beyond it', async () => {
    await using guestInit = await init.start()
    const sessions = new VmSessions((await guestInit.connect()).sessions)
    const { serve } = client(sessions, 'one')
    await serve({ action: 'open', sessionId: 'a', command: ['seq', '1', '2000'] })
    const read = async (stdout: number, acked: number) => {
      const positions = { from: { stdout, stderr: 0 }, acked: { stdout: acked, stderr: 0 } }
      const answer = await serve({ action: 'read', sessionId: 'a', readerId: 'one', ...positions, waitMs: 5_000 })
      return Buffer.from((answer.action === 'read' && answer.parts[0]?.data) || '', 'base64').toString()
    }
    const all = Array.from({ length: 2000 }, (_, n) => `${n + 1}\n`).join('')
    await until(async () => (await read(0, 0)).length === all.length, { what: 'the whole output' })
    expect([await read(5_000, 1_000), await read(8_000, 99_000)]).toEqual([all.slice(5_000), all.slice(8_000)])
    // A read may not acknowledge output beyond the position from which it reads.
    expect(await read(8_000, 0)).toBe(all.slice(8_000))
    sessions.close()
  })

  it('answer a read without output with an empty result after its waiting time', async () => {
    await using guestInit = await init.start()
    const sessions = new VmSessions((await guestInit.connect()).sessions)
    const { serve, read } = client(sessions, 'one')
    await serve({ action: 'open', sessionId: 'a', command: ['cat'], input: true })
    expect(await read(10)).toEqual({ action: 'read', parts: [], end: null })
    sessions.close()
  })

  it("continue after a restart of the agent at the client's offset, without a lost or repeated byte", async () => {
    await using guestInit = await init.start()
    const before = await guestInit.connect()
    const first = client(new VmSessions(before.sessions), 'one')
    const script = 'i=0; while [ $i -lt 30000 ]; do echo line $i; i=$((i+1)); done'
    await first.serve({ action: 'open', sessionId: 'a', command: shell(script) })
    await first.readUntil('line 100\n')
    const interrupted = first.readUntil()
    before.channel.close()
    await expect(interrupted).rejects.toMatchObject({ code: 'exec_failed' })
    const sessions = new VmSessions((await guestInit.connect()).sessions)
    const next = client(sessions, 'one', first.from.stdout)
    expect(await next.readUntil()).toMatchObject({ reason: 'exited', code: 0 })
    expect(first.text() + next.text()).toBe(Array.from({ length: 30_000 }, (_, n) => `line ${n}\n`).join(''))
    sessions.close()
  })

  it('have one reader: a new reader replaces the previous one, whose read fails', async () => {
    await using guestInit = await init.start()
    const sessions = new VmSessions((await guestInit.connect()).sessions)
    const one = client(sessions, 'one')
    await one.serve({ action: 'open', sessionId: 'a', command: shell('echo begun; cat'), input: true })
    await one.readUntil('begun')
    const waiting = one.read()
    waiting.catch(() => undefined)
    const two = client(sessions, 'two')
    await two.readUntil('begun')
    await expect(waiting).rejects.toThrow('another client attached')
    sessions.close()
  })

  it('are detached when they are no longer read, and their programs continue', async () => {
    await using guestInit = await init.start()
    const guest = await guestInit.connect()
    const sessions = new VmSessions(guest.sessions, 50)
    const { serve, readUntil } = client(sessions, 'one')
    await serve({ action: 'open', sessionId: 'a', command: shell('echo begun; exec yes') })
    await readUntil('begun')
    expect(await held(guest)).toBe(true)
    await until(async () => !(await held(guest)), { what: 'the detachment' })
    await until(async () => ((await guest.sessions.list())[0]?.oldest.stdout ?? 0) > 1 << 20, { what: 'more output' })
    sessions.close()
  })

  it('are released if they are never read, so that their programs continue', async () => {
    await using guestInit = await init.start()
    const guest = await guestInit.connect()
    const sessions = new VmSessions(guest.sessions, 50)
    await sessions.serve({ action: 'open', sessionId: 'a', command: ['yes'] })
    await until(async () => !(await held(guest)), { what: 'the release' })
    sessions.close()
  })

  it('are released if their clients do not return after a restart of the agent', async () => {
    await using guestInit = await init.start()
    const guest = await guestInit.connect()
    await guest.sessions.open({ sessionId: 'a', command: ['cat'], input: true })
    const left = guest.sessions.attach('a', { stdout: 0, stderr: 0 }, () => undefined)
    expect(await held(guest)).toBe(true)
    const sessions = new VmSessions(guest.sessions, 50)
    await expect(left.ended).rejects.toThrow('detached')
    expect(await held(guest)).toBe(false)
    sessions.close()
  })

  const sessionId = 'a'
  const requests: readonly SessionRequest[] = [
    { action: 'read', sessionId, readerId: 'one', from: { stdout: 0, stderr: 0 }, waitMs: 10_000 },
    { action: 'input', sessionId, offset: 0, data: 'YQ==' },
    { action: 'close_input', sessionId },
    { action: 'resize', sessionId, size: { rows: 1, columns: 1 } },
    { action: 'signal', sessionId, number: 15 },
    { action: 'remove', sessionId },
  ]
  it.each(requests)('reject the request $action for a session that does not exist', async request => {
    await using guestInit = await init.start()
    const sessions = new VmSessions((await guestInit.connect()).sessions)
    await expect(sessions.serve(request)).rejects.toMatchObject({ code: 'session_missing' })
    sessions.close()
  })
})

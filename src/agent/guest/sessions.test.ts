/** Tests the sessions of the guest's init and their host side together: the init runs as a process of this host. */
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createServer } from 'node:net'
import { buffer } from 'node:stream/consumers'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { collector, compiledInit, type TestGuest } from '../../../test/support/agent/guest-init.ts'
import { until } from '../../../test/support/wait.ts'
import type { SessionStart } from './session-words.ts'

const skip = process.getuid?.() !== 0
/** Largest window of a session (WINDOW_MAX in guest/mote.h). */
const window = 1 << 21
const start0 = { stdout: 0, stderr: 0 }
let init: Awaited<ReturnType<typeof compiledInit>>
beforeAll(async () => {
  if (!skip) init = await compiledInit()
}, 60_000)
afterAll(async () => init?.[Symbol.asyncDispose]())

/** Opens a session, and collects its output in the background. */
async function run(guest: TestGuest, start: Partial<SessionStart>) {
  const sessionId = start.sessionId ?? `s${randomBytes(6).toString('hex')}`
  const { pid } = await guest.sessions.open({ ...start, sessionId })
  const output = collector(onData => guest.sessions.attach(sessionId, start0, onData))
  return { sessionId, pid, ...output }
}
const shell = (script: string) => ['sh', '-c', script]
const digest = (data: Buffer) => createHash('sha256').update(data).digest('hex')

describe.skipIf(skip)('sessions of the guest (needs root)', { timeout: 30_000 }, () => {
  it('a program gets its environment, directory and user, and its outputs and exit code are separate', async () => {
    await using guestInit = await init.start()
    const guest = await guestInit.connect()
    const script = 'echo "$GREETING,$ADDED,$HOME"; pwd; id -u; [ -t 0 ] || echo no terminal; echo error >&2; exit 7'
    const env = { GREETING: 'good day', ADDED: 'a b\nc' }
    const session = await run(guest, { command: shell(script), env, cwd: '/tmp', user: 'nobody' })
    const stdout = 'good day,a b\nc,/nonexistent\n/tmp\n65534\nno terminal\n'
    const total = { stdout: stdout.length, stderr: 6 }
    expect(await session.attachment.ended).toEqual({ reason: 'exited', code: 7, total })
    expect([session.stdout().toString(), session.stderr().toString()]).toEqual([stdout, 'error\n'])
  })

  it('opening a session fails for an unknown user, a missing directory or program, an existing id, or without a command', async () => {
    await using guestInit = await init.start()
    const guest = await guestInit.connect()
    const { sessions } = guest
    const open = (start: Partial<SessionStart>) => sessions.open({ sessionId: 'a', command: ['true'], ...start })
    await expect(open({ user: 'no-such-user' })).rejects.toThrow('no such user')
    await expect(open({ command: [] })).rejects.toThrow('no program')
    const nowhere = await run(guest, { command: ['pwd'], cwd: '/no/such/directory' })
    expect(await nowhere.attachment.ended).toMatchObject({ reason: 'exited', code: 126 })
    const missing = await run(guest, { command: ['no-such-program'] })
    expect(await missing.attachment.ended).toMatchObject({ reason: 'exited', code: 127 })
    await open({})
    await expect(open({})).rejects.toThrow('it exists')
    await expect(sessions.signal('b', 15)).rejects.toThrow('no such session')
  })

  it('binary input and output of several MiB pass unchanged, and the end of the input ends the program', async () => {
    await using guestInit = await init.start()
    const guest = await guestInit.connect()
    const session = await run(guest, { command: ['cat'], input: true })
    const sent = randomBytes(3 << 20)
    for (let at = 0; at < sent.length; at += 1 << 16)
      expect(await guest.sessions.input(session.sessionId, at, sent.subarray(at, at + (1 << 16)))).toBe(at + (1 << 16))
    await guest.sessions.closeInput(session.sessionId)
    expect(await session.attachment.ended).toMatchObject({ reason: 'exited', code: 0 })
    expect(digest(session.stdout())).toBe(digest(sent))
    await expect(guest.sessions.input(session.sessionId, sent.length, sent.subarray(0, 1))).rejects.toThrow('closed')
  })

  it.each([
    ['only newlines', Buffer.alloc(1 << 18, '\n')],
    ['no newline', Buffer.alloc(1 << 18, 'x')],
    // Newlines at the end of a record that no longer fit, because the list of the earlier newlines takes the space.
    [
      'a newline near the end of a record',
      Buffer.concat([Buffer.alloc(3_000, '\n'), Buffer.alloc(61_500, 'x'), Buffer.alloc(9_000, '\n')]),
    ],
    ['zeros', Buffer.alloc(1 << 18)],
    ['short lines', Buffer.alloc(1 << 18, 'y\n')],
    [
      'lines of 64, 4096 and 60,000 bytes',
      Buffer.concat([63, 64, 65, 4095, 4096, 4097, 60_000, 60_000].map(n => Buffer.alloc(n, `${'z'.repeat(n - 1)}\n`))),
    ],
  ])('data with %s passes unchanged through input and output of a session', async (_, sent) => {
    await using guestInit = await init.start()
    const guest = await guestInit.connect()
    const session = await run(guest, { command: ['cat'], input: true })
    for (let at = 0; at < sent.length; ) at = await guest.sessions.input(session.sessionId, at, sent.subarray(at))
    await guest.sessions.closeInput(session.sessionId)
    expect(await session.attachment.ended).toMatchObject({ reason: 'exited', code: 0 })
    expect(session.stdout().equals(sent)).toBe(true)
    expect(guest.faults).toEqual([])
  })

  it('a host without records can attach and write in base64, also after a host with records', async () => {
    await using guestInit = await init.start()
    const newer = await guestInit.connect()
    const session = await run(newer, { command: ['cat'], input: true })
    await newer.sessions.input(session.sessionId, 0, Buffer.from('one\n'))
    await until(() => session.stdout().length === 4, { what: 'the output' })
    const older = await guestInit.connect()
    const parts: string[] = []
    const attach = `session.attach ${session.sessionId} token 262144 4 0`
    const ended = older.channel.request(attach, 0, { onPart: (kind, text) => void parts.push(`${kind} ${text}`) })
    const data = Buffer.from('two\n').toString('base64')
    expect(await older.channel.request(`session.input ${session.sessionId} 4 ${data}`, 5_000)).toBe('8')
    await older.channel.request(`session.eof ${session.sessionId}`, 5_000)
    expect(await ended).toBe('exited 0 8 0')
    expect(parts).toEqual([`o 4 ${data}`])
    await expect(older.channel.request(`session.attach ${session.sessionId} token 262145 0 0`, 5_000)).rejects.toThrow(
      'window',
    )
  })

  it('an input line that a crashed host left incomplete is not written, and the next host continues the input', async () => {
    await using guestInit = await init.start()
    const first = await guestInit.connect()
    const session = await run(first, { command: ['cat'], input: true })
    await first.sessions.input(session.sessionId, 0, Buffer.from('begun '))
    await first.channel.request('ping', 5_000)
    guestInit.writeControl(`x session.put ${session.sessionId} 6 00009 00000 half`)
    const second = await guestInit.connect()
    expect((await second.sessions.list())[0]).toMatchObject({ inputBytes: 6 })
    const rest = collector(onData => second.sessions.attach(session.sessionId, start0, onData))
    await second.sessions.input(session.sessionId, 6, Buffer.from('whole\n'))
    await second.sessions.closeInput(session.sessionId)
    await rest.attachment.ended
    expect(rest.stdout().toString()).toBe('begun whole\n')
  })

  it('input that is sent twice is written once, and input after a gap is refused', async () => {
    await using guestInit = await init.start()
    const guest = await guestInit.connect()
    const session = await run(guest, { command: ['cat'], input: true })
    const input = (offset: number, text: string) => guest.sessions.input(session.sessionId, offset, Buffer.from(text))
    expect(await input(0, 'abc')).toBe(3)
    expect(await input(0, 'abc')).toBe(3)
    expect(await input(1, 'bcdef')).toBe(6)
    await expect(input(7, 'x')).rejects.toThrow('bad input')
    await guest.sessions.closeInput(session.sessionId)
    await session.attachment.ended
    expect(session.stdout().toString()).toBe('abcdef')
  })

  it('a terminal has the requested size, can be resized, and passes Ctrl-C and Ctrl-D', async () => {
    await using guestInit = await init.start()
    const guest = await guestInit.connect()
    const script = `trap 'stty size' WINCH; trap 'echo interrupted' INT; stty size; tty; while read -r line; do echo "got $line"; done; echo end`
    const session = await run(guest, { command: ['bash', '-c', script], tty: { rows: 24, columns: 80 } })
    const printed = (text: string) => until(() => session.stdout().toString().includes(text), { what: text })
    await printed('/dev/pts/')
    expect(session.stdout().toString()).toMatch(/^24 80\r\n/)
    await guest.sessions.resize(session.sessionId, { rows: 50, columns: 132 })
    let offset = 0
    const type = async (text: string) => {
      offset = await guest.sessions.input(session.sessionId, offset, Buffer.from(text))
    }
    await type('line\r')
    await printed('got line')
    await printed('50 132')
    await type('\x03')
    await printed('interrupted')
    await guest.sessions.closeInput(session.sessionId)
    expect(await session.attachment.ended).toMatchObject({ reason: 'exited', code: 0 })
    expect(session.stdout().toString()).toMatch(/end\r\n$/)
  })

  it('a session on a TCP port passes bytes in both directions, or reports that nothing listens', async () => {
    await using guestInit = await init.start()
    const guest = await guestInit.connect()
    // Echoes all input after the client has closed its side.
    const server = createServer({ allowHalfOpen: true }, socket => void buffer(socket).then(all => socket.end(all)))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const address = server.address()
    const port = address !== null && typeof address === 'object' ? address.port : 0
    const session = await run(guest, { port, input: true })
    const sent = randomBytes(1 << 20)
    for (let at = 0; at < sent.length; at += 1 << 16)
      await guest.sessions.input(session.sessionId, at, sent.subarray(at, at + (1 << 16)))
    await guest.sessions.closeInput(session.sessionId)
    expect(await session.attachment.ended).toMatchObject({ reason: 'exited', code: 0 })
    expect(digest(session.stdout())).toBe(digest(sent))
    server.close()
    const nobody = await run(guest, { port, input: true })
    expect(await nobody.attachment.ended).toMatchObject({ reason: 'exited', code: 1 })
    expect(nobody.stderr().toString()).toBe(`nothing listens on port ${port}\n`)
  })

  it('SIGKILL ends all processes of the session, including those in other process groups', async () => {
    await using guestInit = await init.start()
    const guest = await guestInit.connect()
    const session = await run(guest, {
      command: ['bash', '-c', 'set -m; sleep 1000 & echo $!; wait'],
      tty: { rows: 1, columns: 1 },
    })
    await until(() => /\d+\r\n/.test(session.stdout().toString()), { what: 'the PID of the job' })
    const job = Number(session.stdout().toString().trim())
    expect(existsSync(`/proc/${job}`)).toBe(true)
    await guest.sessions.signal(session.sessionId, 9)
    expect(await session.attachment.ended).toMatchObject({ reason: 'signaled', code: 9 })
    await until(() => !existsSync(`/proc/${job}`), { what: 'the end of the job' })
    await expect(guest.sessions.signal(session.sessionId, 15)).rejects.toThrow('ended')
  })

  it('after a lost connection, the next connection continues the output without a lost or repeated byte', async () => {
    await using guestInit = await init.start()
    const first = await guestInit.connect()
    const script = 'i=0; while [ $i -lt 30000 ]; do echo line $i; i=$((i+1)); done; read -r answer; echo "$answer"'
    const before = await run(first, { command: shell(script), input: true })
    await until(() => before.stdout().length > 1 << 16, { what: 'output' })
    first.channel.close()
    await expect(before.attachment.ended).rejects.toThrow('closed')
    const next = await guestInit.connect()
    const from = { stdout: before.stdout().length, stderr: 0 }
    const after = collector(onData => next.sessions.attach(before.sessionId, from, onData))
    await next.sessions.input(before.sessionId, 0, Buffer.from('done\n'))
    expect(await after.attachment.ended).toMatchObject({ reason: 'exited', code: 0 })
    expect(after.lostBytes()).toBe(0)
    const lines = Array.from({ length: 30_000 }, (_, n) => `line ${n}\n`).join('')
    expect(Buffer.concat([before.stdout(), after.stdout()]).toString()).toBe(`${lines}done\n`)
  })

  it('a detached program continues, and the next client gets the retained output and the size of the gap', async () => {
    await using guestInit = await init.start()
    const guest = await guestInit.connect()
    const { sessions } = guest
    await sessions.open({ sessionId: 'a', command: shell('head -c 1000000 /dev/zero; echo end') })
    const full = async () => (await sessions.list())[0]?.total.stdout === 1 << 18
    await until(full, { what: 'the program waits for its first client' })
    await sessions.release('a')
    const ended = async () => (await sessions.list()).find(row => row.state === 'exited')
    const row = await until(ended, { what: 'the end' })
    const total = 1_000_004
    expect(row).toMatchObject({ sessionId: 'a', number: 0, held: false, oldest: { stdout: total - (1 << 18) } })
    const late = collector(onData => sessions.attach('a', start0, onData))
    expect(await late.attachment.ended).toMatchObject({ reason: 'exited', code: 0, total: { stdout: total } })
    expect([late.lostBytes(), late.stdout().length]).toEqual([total - (1 << 18), 1 << 18])
    expect(late.stdout().subarray(-4).toString()).toBe('end\n')
    await sessions.remove('a')
    expect(await sessions.list()).toEqual([])
  })

  it('a client that stops reading blocks only the program of its own session', async () => {
    await using guestInit = await init.start()
    const guest = await guestInit.connect()
    const { sessions } = guest
    await sessions.open({ sessionId: 'a', command: ['yes'] })
    let receivedBytes = 0
    const stalled = sessions.attach('a', start0, ({ data }) => {
      receivedBytes += data.length
    })
    await until(() => receivedBytes === window, { what: 'a full window' })
    const full = async () => (await sessions.list())[0]?.total.stdout === window
    await until(full, { what: 'a full backlog' })
    const other = await run(guest, { command: ['echo', 'hello'] })
    await other.attachment.ended
    expect(other.stdout().toString()).toBe('hello\n')
    expect([await full(), receivedBytes]).toEqual([true, window])
    await stalled.detach()
    await expect(stalled.ended).rejects.toThrow('detached')
    await until(async () => !(await full()), { what: 'the program goes on' })
    expect(guest.faults).toEqual([])
  })

  it('a second client of a session replaces the first one', async () => {
    await using guestInit = await init.start()
    const guest = await guestInit.connect()
    const session = await run(guest, { command: ['cat'], input: true })
    const second = collector(onData => guest.sessions.attach(session.sessionId, start0, onData))
    await expect(session.attachment.ended).rejects.toThrow('another client attached')
    await session.attachment.detach()
    await guest.sessions.input(session.sessionId, 0, Buffer.from('x'))
    await guest.sessions.closeInput(session.sessionId)
    await second.attachment.ended
    expect([session.stdout().length, second.stdout().toString()]).toEqual([0, 'x'])
  })

  it('a guest has at most 16 sessions, and a new session replaces an ended one', async () => {
    await using guestInit = await init.start()
    const { sessions } = await guestInit.connect()
    const open = (n: number) => sessions.open({ sessionId: `s${n}`, command: ['cat'], input: true })
    for (let n = 0; n < 16; n++) await open(n)
    await expect(open(16)).rejects.toThrow('too many sessions')
    await expect(sessions.remove('s3')).rejects.toThrow('running')
    await sessions.signal('s3', 9)
    let listed = await sessions.list()
    const isEnded = async () => {
      listed = await sessions.list()
      return listed[3]?.state === 'signaled'
    }
    await until(isEnded, { what: 'the end of one' }).catch((cause: unknown) => {
      throw new Error(`the sessions are ${JSON.stringify(listed)}`, { cause })
    })
    await open(16)
    const ids = (await sessions.list()).map(({ sessionId }) => sessionId)
    expect([ids.includes('s3'), ids.includes('s16'), ids.length]).toEqual([false, true, 16])
  })

  it('every session command with missing arguments is answered', async () => {
    await using guestInit = await init.start()
    const { channel, sessions } = await guestInit.connect()
    await sessions.open({ sessionId: 'a', command: ['cat'], input: true })
    const answered = async (line: string) => channel.request(line, 5_000).catch((error: unknown) => String(error))
    for (const verb of [
      'attach',
      'stream',
      'put',
      'limits',
      'ack',
      'input',
      'resize',
      'detach',
      'signal',
      'remove',
      'open',
      'odd',
      'eof',
    ])
      for (const rest of ['', ' a', ' a ', ' b', ' a/b'])
        expect(await answered(`session.${verb}${rest}`)).not.toMatch(/did not answer|closed/)
    expect(await channel.request('ping', 5_000)).toBe('')
  })

  it('any command line is answered or ignored, and the init keeps working', { timeout: 60_000 }, async () => {
    await using guestInit = await init.start()
    const { channel, sessions } = await guestInit.connect()
    const verb = fc.constantFrom(
      'open',
      'stream',
      'put',
      'limits',
      'attach',
      'ack',
      'input',
      'eof',
      'resize',
      'detach',
      'remove',
      'odd',
      '',
    )
    const word = fc.oneof(
      fc.constantFrom('a', 'arg=true', 'arg=', 'tty=1x1', 'tty=x', 'env=A', 'user=', 'input=1', '0', '-1', '*', '='),
      fc.constantFrom(
        '99999999999999999999',
        'YWJj',
        '1',
        '262144',
        '00003 00001 a bA',
        '3 0 abc',
        '3 1 abc\u0080',
        '65000 65000 x',
        'x'.repeat(5000),
        'cwd=%',
        '%',
        '1 YWJj',
      ),
      fc.string({ maxLength: 12 }).map(text => text.replaceAll(/[\n\r]/g, '')),
    )
    const line = fc.tuple(verb, fc.array(word, { maxLength: 6 })).map(([name, words]) => [`session.${name}`, ...words])
    await fc.assert(
      fc.asyncProperty(fc.array(line, { maxLength: 20 }), async lines => {
        for (const words of lines) channel.request(words.join(' '), 5_000).catch(() => undefined)
        await channel.request('ping', 5_000)
      }),
      { numRuns: 200 },
    )
    expect((await sessions.list()).length).toBeLessThanOrEqual(16)
  })
})

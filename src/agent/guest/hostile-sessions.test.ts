/** Root in a guest can replace Mote's init: the host checks every answer and every byte count of its sessions. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { testPorts } from '../../../test/support/agent/guest.ts'
import { until } from '../../../test/support/wait.ts'
import { openGuest } from './channel.ts'
import { GuestFault } from './fault.ts'
import { lastingGuest } from './lasting.ts'
import { recordOf } from './records.ts'
import { parseEnd, parsePart, parseRow } from './session-words.ts'
import { type SessionData, sessionsOf } from './sessions.ts'

const windowBytes = 1 << 18

const quiet = {
  onFrames: () => undefined,
  onStarted: () => undefined,
  onExit: () => undefined,
  onBroken: () => undefined,
}

/**
 * Connects to a simulated guest.
 * @param limits its answer to `session.limits`; the default is that of an init without support for records
 */
async function opened(limits = 'err bad name') {
  const both = await testPorts()
  const faults: GuestFault[] = []
  const guest = await openGuest(both.ports, 0, {
    ...quiet,
    onBroken: fault => void faults.push(fault),
  })
  guest.ready.catch(() => undefined)
  const control = await both.end('control')
  const asked = (verb: string) =>
    until(
      () =>
        control
          .lines()
          .findLast(line => line.includes(` session.${verb}`))
          ?.split(' ')[0],
      { what: verb },
    )
  return {
    /** Answers `session.limits`, which the host sends before the first attachment. */
    async answerLimits() {
      await control.send(`${await asked('limits')} ${limits}\n`)
    },
    sessions: sessionsOf(guest),
    guest,
    faults,
    control,
    asked,
    async [Symbol.asyncDispose]() {
      guest.close()
      await both[Symbol.asyncDispose]()
    },
  }
}

const part = (offset: number, bytes: number) => `o ${offset} ${Buffer.alloc(bytes).toString('base64')}`
const chunk = 6144

describe('a guest that violates the session protocol', () => {
  const windowPlusOne = Array.from({ length: Math.ceil(windowBytes / chunk) + 1 }, (_, n) => part(n * chunk, chunk))
  const cases: ReadonlyArray<readonly [string, readonly string[]]> = [
    ['more output than the window', windowPlusOne],
    ['a gap in the middle of the output', [part(0, 3), part(4, 3)]],
    ['output that was sent before', [part(0, 3), part(2, 3)]],
    ['empty output', ['o 0 ']],
    ['output that is not base64', ['o 0 a-b_']],
    ['output with an incomplete base64 group', ['o 0 YWJ']],
    ['a negative offset', [part(-1, 3)]],
    ['an offset that is not a safe integer', ['o 9999999999999999 YWJj']],
    ['a part that is too long', [part(0, 30_000)]],
  ]
  it.each(cases)('loses its connection after it sent %s', async (_, lines) => {
    await using end = await opened()
    const received: SessionData[] = []
    const { ended } = end.sessions.attach('a', { stdout: 0, stderr: 0 }, data => received.push(data))
    await end.answerLimits()
    const id = await end.asked('attach')
    await end.control.send(lines.map(line => `${id} ${line}\n`).join(''))
    await expect(ended).rejects.toThrow(/violated the protocol/)
    await end.guest.closed
    expect(end.faults).toHaveLength(1)
    expect(received.reduce((sum, { data }) => sum + data.length, 0)).toBeLessThanOrEqual(windowBytes)
  })

  it('loses its connection after it sent a list of more than 16 sessions', async () => {
    await using end = await opened()
    const listed = end.sessions.list()
    listed.catch(() => undefined)
    const id = await end.asked('list')
    await end.control.send(`${id} o s1 running 7 0 0 0 0 0 0 0\n`.repeat(17))
    await expect(listed).rejects.toThrow(/violated the protocol/)
    expect(end.faults).toHaveLength(1)
  })
})

describe('a guest that violates the session protocol with records', () => {
  const largeWindow = 1 << 21
  const record = (offset: number, data: Buffer) => [Buffer.from(`O ${offset} `), recordOf(data).bytes]
  const full = Buffer.alloc(60_000, 'x')
  const text = (line: string) => [Buffer.from(`${line}\n`, 'latin1')]
  const cases: ReadonlyArray<readonly [string, ReadonlyArray<readonly Buffer[]>]> = [
    [
      'more output than the window',
      Array.from({ length: Math.ceil(largeWindow / full.length) + 1 }, (_, n) => record(n * full.length, full)),
    ],
    ['a gap in the middle of the output', [record(0, Buffer.from('abc')), record(4, Buffer.from('abc'))]],
    ['output that was sent before', [record(0, Buffer.from('abc')), record(2, Buffer.from('abc'))]],
    ['a record without data', [text('O 0 00000 00000 ')]],
    ['less data than stated', [text('O 0 00004 00000 abc')]],
    ['more data than stated', [text('O 0 00002 00000 abc')]],
    ['a newline position beyond the data', [text('O 0 00003 00001 abcC')]],
    ['an incomplete newline position', [text('O 0 00003 00001 abc\xc0')]],
    ['an offset that is not a number', [text('O x 00003 00000 abc')]],
    ['a line without offset and data', [text('O ')]],
  ]
  it.each(cases)('loses its connection after it sent %s', async (_, records) => {
    await using end = await opened('ok 1 2097152 524288')
    let receivedBytes = 0
    const { ended } = end.sessions.attach('a', { stdout: 0, stderr: 0 }, ({ data }) => (receivedBytes += data.length))
    ended.catch(() => undefined)
    await end.answerLimits()
    const id = Buffer.from(`${await end.asked('stream')} `)
    await end.control.send(Buffer.concat(records.flatMap(parts => [id, ...parts])))
    await expect(ended).rejects.toThrow(/violated the protocol/)
    await end.guest.closed
    expect([end.faults.length, receivedBytes <= largeWindow]).toEqual([1, true])
  })
})

it('complete and partial records that were sent to an earlier connection are ignored', async () => {
  await using end = await opened('ok 1 2097152 524288')
  const received: string[] = []
  const { ended } = end.sessions.attach('a', { stdout: 0, stderr: 0 }, ({ data }) => received.push(data.toString()))
  await end.answerLimits()
  const id = await end.asked('stream')
  const { bytes } = recordOf(Buffer.from('a\nb'))
  const words = (text: string) => Buffer.from(text)
  await end.control.send(
    Buffer.concat([
      ...[
        words('the rest of a record * exit 3\n'),
        words('0123456789abcdef-7 O 12 '),
        recordOf(Buffer.alloc(60_000)).bytes,
      ],
      ...[words(`${id} O 0 `), bytes, words(`${id} ok exited 0 3 0\n`)],
    ]),
  )
  expect(await ended).toMatchObject({ reason: 'exited', code: 0 })
  expect([received, end.faults]).toEqual([['a\nb'], []])
})

it('only the first four attachments of a guest get a large window', async () => {
  await using end = await opened('ok 1 2097152 524288')
  const none = { stdout: 0, stderr: 0 }
  const all = Array.from({ length: 6 }, (_, n) => end.sessions.attach(`s${n}`, none, () => undefined))
  for (const { ended } of all) ended.catch(() => undefined)
  await end.answerLimits()
  const lines = () => end.control.lines().filter(line => line.includes(' session.stream '))
  await until(() => lines().length === 6, { what: 'the attachments' })
  const windows = lines().map(line => Number(line.split(' ')[4]))
  expect(windows).toEqual([...Array.from({ length: 4 }, () => 1 << 21), 1 << 18, 1 << 18])
  expect(all.map(({ windowBytes }) => windowBytes())).toEqual(windows)
})

it('an init without session support causes session_refused and no protocol violation', async () => {
  await using end = await opened()
  const listed = end.sessions.list()
  listed.catch(() => undefined)
  await end.control.send(`${await end.asked('list')} err unknown verb\n`)
  await expect(listed).rejects.toMatchObject({ code: 'session_refused' })
  expect(end.faults).toEqual([])
})

it('a session list with another protocol version is rejected', async () => {
  await using end = await opened()
  const listed = end.sessions.list()
  listed.catch(() => undefined)
  await end.control.send(`${await end.asked('list')} ok 2 16 262144\n`)
  await expect(listed).rejects.toThrow(/unexpected answer/)
})

it('a session that ends before all its output has arrived is not reported as complete', async () => {
  await using end = await opened()
  const { ended } = end.sessions.attach('a', { stdout: 0, stderr: 0 }, () => undefined)
  await end.answerLimits()
  const id = await end.asked('attach')
  await end.control.send(`${id} ${part(0, 3)}\n${id} ok exited 0 4 0\n`)
  await expect(ended).rejects.toThrow(/before its output/)
})

it('an acknowledgment names the attachment and the processed bytes, after each quarter of the window', async () => {
  await using end = await opened()
  const attachment = end.sessions.attach('a', { stdout: 10, stderr: 0 }, () => undefined)
  await end.answerLimits()
  const id = await end.asked('attach')
  const token = end.control
    .lines()
    .findLast(line => line.includes('session.attach'))
    ?.split(' ')[3]
  await end.control.send(Array.from({ length: 11 }, (_, n) => `${id} ${part(10 + n * chunk, chunk)}\n`).join(''))
  await until(() => (attachment.ack('stdout', 1e9), end.control.lines().some(line => line.includes('session.ack'))), {
    what: 'the acknowledgment',
  })
  const acks = end.control.lines().filter(line => line.includes('session.ack'))
  expect(acks).toHaveLength(1)
  expect(acks[0]?.split(' ').slice(1)).toEqual(['session.ack', 'a', token, String(10 + 11 * chunk), '0'])
})

it('a request without a timeout waits until the guest is connected', async () => {
  await using both = await testPorts()
  const guest = lastingGuest(both.ports, 0, quiet, () => true)
  guest.ready.catch(() => undefined)
  const asked = guest.request('session.eof a', 0)
  asked.catch(() => undefined)
  const control = await both.end('control')
  const id = (verb: string) =>
    until(
      () =>
        control
          .lines()
          .findLast(line => line.includes(` ${verb}`))
          ?.split(' ')[0],
      { what: verb },
    )
  await control.send(`${await id('status')} ok running 1\n`)
  await control.send(`${await id('session.eof')} ok\n`)
  expect(await asked).toBe('')
  guest.close()
})

describe('a random answer of a guest', () => {
  const words = fc.array(
    fc.oneof(
      fc.constantFrom('running', 'exited', 'signaled', '0', '1', '65', 'YWJj', 's1'),
      fc.double().map(String),
      fc.string({ maxLength: 20 }),
    ),
    { maxLength: 12 },
  )
  it.each([
    ['a row', parseRow],
    ['an end', parseEnd],
    ['a part', parsePart],
  ] as const)('that is parsed as %s yields safe integers or a GuestFault', (_, parse) => {
    fc.assert(
      fc.property(words, said => {
        try {
          for (const value of Object.values(parse(said.join(' '))))
            if (typeof value === 'number') expect(Number.isSafeInteger(value)).toBe(true)
        } catch (error) {
          if (!(error instanceof GuestFault)) throw error
        }
      }),
    )
  })
})

/** Tests file sessions with a misbehaving guest. */
import { describe, expect, it } from 'vitest'
import type { SessionOutput, SessionRequest } from '../../contract/agent.ts'
import { readEntries, readSpace, takeHead } from './file-list.ts'
import { FileSession } from './file-session.ts'
import type { GuestLine } from './guest-line.ts'
import { rangeOf } from './range.ts'

const windowBytes = 1 << 18
const nothing: SessionOutput = { parts: [], end: null, windowBytes }
const part = (stream: 'stdout' | 'stderr', offset: number, text: string, lostBytes = 0): SessionOutput => ({
  parts: [{ stream, offset, lostBytes, data: Buffer.from(text) }],
  end: null,
  windowBytes,
})
const ended = (code: number): SessionOutput => ({
  parts: [],
  end: { reason: 'exited', code, total: { stdout: 0, stderr: 0 } },
  windowBytes,
})

/**
 * Simulates a guest that returns these outputs to consecutive reads; further reads get the last one again. Each read
 * advances the clock by 20 s.
 */
function sessionWith(answers: readonly SessionOutput[]) {
  let clockMs = 0
  let reads = 0
  const requests: string[] = []
  const line: GuestLine = {
    async ask(request: SessionRequest) {
      requests.push(request.action === 'signal' ? `signal ${request.number}` : request.action)
      return { action: request.action } as never
    },
    async read() {
      requests.push('read')
      clockMs += 20_000
      return answers[Math.min(reads++, answers.length - 1)] ?? nothing
    },
    inputsAhead: () => 1,
    input: async ({ offset }, parts) => parts.reduce((sum, data) => sum + data.length, offset),
  }
  const released = Promise.withResolvers<void>()
  const session = new FileSession({
    id: 'a',
    line,
    now: () => clockMs,
    signal: new AbortController().signal,
    onEnd: () => void requests.push('unused'),
    release: async () => released.resolve(),
    stallMs: 60_000,
  })
  return { session, requests, released: released.promise }
}

async function* stream(...parts: readonly string[]): AsyncGenerator<Buffer, void, undefined> {
  for (const one of parts) yield Buffer.from(one)
}

describe('a file session', () => {
  it('fails with a reason if the guest makes no progress for a minute, and sends a signal to the tool', async () => {
    const { session, requests, released } = sessionWith([part('stdout', 0, 'x'), nothing])
    const read = async () => {
      await using own = session
      await own.done()
    }
    await expect(read()).rejects.toThrow('no progress for a minute')
    await released
    expect(requests.slice(0, 6)).toEqual(['read', 'read', 'read', 'read', 'read', 'unused'])
    expect([requests[6], requests.at(-1)]).toEqual(['signal 1', 'remove'])
  })

  it('fails with the error message of a failed tool, on one line and truncated', async () => {
    for (const [said, status, text] of [
      ['/a: No such file or directory\n', 404, '/a: No such file or directory.'],
      ['/a: Is a directory\n', 409, '/a: Is a directory.'],
      ['/a\n\u001b[31mb: Is a directory\n', 409, '/a\\u000a\\u001b[31mb: Is a directory.'],
      [`${'x'.repeat(9_000)}`, 409, `…${'x'.repeat(300)}.`],
      ['no such file tool\n', 409, 'older version of Mote'],
      ['', 503, 'ended with exited 1'],
    ] as const) {
      const { session } = sessionWith([part('stderr', 0, said), ended(1)])
      await expect(session.done()).rejects.toMatchObject({ status, message: expect.stringContaining(text) })
    }
  })

  it('fails if the guest has dropped part of the output', async () => {
    const { session } = sessionWith([part('stdout', 9, 'x', 9), ended(0)])
    await expect(session.done()).rejects.toThrow('did not retain')
  })
})

describe('the output of the file tools in a guest', () => {
  it('is rejected if it does not have the expected format', async () => {
    for (const text of ['x', 'q 644 1 1 /a \n', 'f 999 1 1 /a \n', 'f 644 -1 1 /a \n', 'x'.repeat(50_000)])
      await expect(readEntries(stream(text))).rejects.toThrow('invalid directory list')
    for (const text of ['', '1 2', '1 2 3 4\n', `${'9'.repeat(300)}`])
      await expect(readSpace(stream(text))).rejects.toThrow('invalid directory list')
    for (const text of ['', 'x\n', '1 v 0\n', '1 a b 0 1\n', `1 ${'v'.repeat(90)} 0 1\n`, 'x'.repeat(500)])
      await expect(takeHead(stream(text, text))).rejects.toThrow('invalid directory list')
  })

  it('is parsed even if it is split into chunks, and times outside the years 1970 to 9999 are clamped', async () => {
    const { entries } = await readEntries(
      stream('f 644 5 -9999', '99999999 /a%', '20b \nl 777 1 999999999999 /l /a d\n'),
    )
    expect(entries).toMatchObject([
      { name: 'a b', mode: '0644', modified_at: '1970-01-01T00:00:00.000Z', target: null },
      { name: 'l', target: '/a', target_type: 'directory', modified_at: '9999-12-31T00:00:00.000Z' },
    ])
    const { head, rest } = await takeHead(stream('10 v-1.2 ', '0 10', '\nabc'))
    expect([head, rest.toString()]).toEqual([{ sizeBytes: 10, version: 'v-1.2', first: 0, count: 10 }, 'abc'])
  })

  it('is truncated after the maximum number of bytes of a response', async () => {
    const line = `f 644 1 1 /${'x'.repeat(4_000)} \n`
    const { entries, isComplete } = await readEntries(stream(...Array.from({ length: 1_000 }, () => line)))
    expect([isComplete, entries.length < 300]).toEqual([false, true])
  })
})

it('rangeOf accepts a header with a single byte range and ignores any other header', () => {
  expect(rangeOf('bytes=1-2', undefined)).toEqual(['1', '2', ''])
  expect(rangeOf('bytes=-2', '"a-1.b"')).toEqual(['-2', '', 'a-1.b'])
  expect(rangeOf('bytes=1-', 'Mon, 23 Nov 2026 10:00:00 GMT')).toEqual(['1', '', 'none'])
  for (const range of [undefined, '', 'bytes', 'bytes=-', 'bytes=2-1', 'bytes=1-2,3-4', `bytes=${'9'.repeat(40)}-`])
    expect(rangeOf(range, undefined)).toBeUndefined()
})

import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { SessionEnd } from '../guest/session-words.ts'
import type { Attachment, SessionData } from '../guest/sessions.ts'
import { SessionReader } from './session-reader.ts'
import { UnreadOutput } from './unread-output.ts'

it('output that arrives byte by byte, alternating between the streams, is returned as one part for each stream', async () => {
  let onData: (part: SessionData) => void = () => undefined
  const attachment: Attachment = {
    ended: new Promise(() => undefined),
    windowBytes: () => 1 << 18,
    ack: () => undefined,
    detach: async () => undefined,
  }
  const sessions = {
    attach: (_: string, __: unknown, take: typeof onData) => {
      onData = take
      return attachment
    },
  }
  const reader = new SessionReader(sessions, 'a', 'one', { stdout: 5, stderr: 0 })
  const bytes = 1 << 17
  for (let n = 0; n < bytes; n++) {
    const data = Buffer.from([n & 255])
    onData({ stream: 'stdout', offset: 5 + n, lostBytes: 0, data })
    onData({ stream: 'stderr', offset: n, lostBytes: 0, data })
  }
  const { parts } = await reader.read({ stdout: 6, stderr: 0 }, { waitMs: 0, most: 1 << 20 })
  expect(parts.map(({ stream, offset, lostBytes }) => [stream, offset, lostBytes])).toEqual([
    ['stdout', 6, 0],
    ['stderr', 0, 0],
  ])
  expect(parts.map(({ data }) => data.length)).toEqual([bytes - 1, bytes])
})

it('unread output returns the right bytes for any offset, whatever the sizes of the parts in which it arrived', () => {
  const step = fc.oneof(fc.uint8Array({ minLength: 1, maxLength: 5_000 }), fc.double({ min: 0, max: 1, noNaN: true }))
  fc.assert(
    fc.property(fc.nat(1_000), fc.nat(1_000), fc.array(step, { maxLength: 30 }), (offset, gap, steps) => {
      const unread = new UnreadOutput(offset)
      // The expected result: all bytes from the requested offset, with zeros for bytes that were lost.
      let all = Buffer.alloc(0)
      let at = 0
      let lostBytes = gap
      for (const one of steps) {
        if (typeof one === 'number') at += Math.floor(one * (all.length - at))
        else {
          unread.push(Buffer.from(one), lostBytes)
          all = Buffer.concat([all, Buffer.alloc(lostBytes), one])
          lostBytes = 0
        }
        unread.dropUntil(offset + at)
        const read = unread.read(offset + at)
        const lost = all.length === 0 ? 0 : Math.max(0, gap - at)
        expect([read.offset, read.lostBytes, unread.next]).toEqual([offset + at + lost, lost, offset + all.length])
        expect(read.data.equals(all.subarray(at + lost))).toBe(true)
        expect(unread.read(offset + at, 3).data.equals(all.subarray(at + lost, at + lost + 3))).toBe(true)
      }
    }),
  )
})

it('the end of a session is reported only with the last part of its output', async () => {
  const ended = Promise.withResolvers<SessionEnd>()
  const attachment: Attachment = {
    ended: ended.promise,
    windowBytes: () => 1 << 18,
    ack: () => undefined,
    detach: async () => undefined,
  }
  let onData: (part: SessionData) => void = () => undefined
  const sessions = {
    attach: (_: string, __: unknown, take: typeof onData) => {
      onData = take
      return attachment
    },
  }
  const reader = new SessionReader(sessions, 'a', 'one', { stdout: 0, stderr: 0 })
  onData({ stream: 'stdout', offset: 0, lostBytes: 0, data: Buffer.from('abcde') })
  const end = { reason: 'exited', code: 0, total: { stdout: 5, stderr: 0 } } as const
  ended.resolve(end)
  await ended.promise
  const read = (stdout: number) => reader.read({ stdout, stderr: 0 }, { waitMs: 1_000, most: 3 })
  expect(await read(0)).toMatchObject({ parts: [{ offset: 0 }], end: null })
  expect(await read(3)).toMatchObject({ parts: [{ offset: 3 }], end })
})

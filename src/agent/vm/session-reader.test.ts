import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Attachment, SessionData } from '../guest/sessions.ts'
import { SessionReader } from './session-reader.ts'
import { UnreadOutput } from './unread-output.ts'

it('output in parts of one byte, alternating between the streams, becomes one part for each stream', async () => {
  let onData: (part: SessionData) => void = () => undefined
  const attachment: Attachment = {
    ended: new Promise(() => undefined),
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
  const { parts } = await reader.read({ stdout: 6, stderr: 0 }, 0)
  expect(parts.map(({ stream, offset, lostBytes }) => [stream, offset, lostBytes])).toEqual([
    ['stdout', 6, 0],
    ['stderr', 0, 0],
  ])
  expect(parts.map(({ data }) => Buffer.from(data, 'base64').length)).toEqual([bytes - 1, bytes])
})

it('unread output returns the bytes from any acknowledged offset, however it arrives', () => {
  const step = fc.oneof(fc.uint8Array({ minLength: 1, maxLength: 5_000 }), fc.double({ min: 0, max: 1, noNaN: true }))
  fc.assert(
    fc.property(fc.nat(1_000), fc.nat(1_000), fc.array(step, { maxLength: 30 }), (offset, gap, steps) => {
      const unread = new UnreadOutput(offset)
      // The model: all bytes from the requested offset, with zeros for the gap.
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
        expect(Buffer.from(read.data, 'base64').equals(all.subarray(at + lost))).toBe(true)
      }
    }),
  )
})

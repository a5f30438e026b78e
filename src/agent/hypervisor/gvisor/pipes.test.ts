import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { GuestFault } from '../../guest/fault.ts'
import { frameOf, framesOf } from './pipes.ts'

const nonce = '0123456789abcdef'
const mark = Buffer.from(`\0sync ${nonce}`)

function reader() {
  const frames: Array<readonly [number, string]> = []
  return { frames, take: framesOf(nonce, (which, data) => void frames.push([which, data.toString('latin1')])) }
}

describe('frames of a sandbox', () => {
  test('are read whatever the chunks are, and only after the echo of the nonce', () => {
    const log = 'x'.repeat(4093)
    const bytes = Buffer.concat([
      Buffer.from('the rest of a frame for an earlier agent'),
      mark,
      frameOf(0, Buffer.from('1 ok\n')),
      frameOf(1, Buffer.from(log)),
      frameOf(1, Buffer.alloc(0)),
    ])
    for (const size of [1, 2, 3, 7, 4096, bytes.length]) {
      const { frames, take } = reader()
      for (let at = 0; at < bytes.length; at += size) take(bytes.subarray(at, at + size))
      expect(frames, `chunks of ${size} bytes`).toEqual([
        [0, '1 ok\n'],
        [1, log],
        [1, ''],
      ])
    }
  })

  test.each([
    ['an unknown port', Buffer.from([2, 1, 0, 65])],
    ['a frame longer than a pipe writes at once', Buffer.from([0, 0xff, 0xff, 65])],
  ])('%s is a fault of the guest', (_, bytes) => {
    const { take } = reader()
    take(mark)
    expect(() => take(bytes)).toThrow(GuestFault)
  })

  test('random bytes end in a fault or in nothing, within 50 ms for a megabyte, and take no memory', () => {
    const noise = randomBytes(1 << 20)
    for (const prefix of [Buffer.alloc(0), mark]) {
      const { take } = reader()
      const startedMs = performance.now()
      try {
        for (let at = 0; at < noise.length; at += 65_536)
          take(Buffer.concat([at === 0 ? prefix : Buffer.alloc(0), noise.subarray(at, at + 65_536)]))
      } catch (error) {
        expect(error).toBeInstanceOf(GuestFault)
      }
      expect(performance.now() - startedMs).toBeLessThan(50)
    }
  })
})

import { randomBytes } from 'node:crypto'
import { closeSync, openSync, readSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { GuestFault } from '../../guest/fault.ts'
import { run } from '../../../lib/exec.ts'
import { frameOf, framesFor, framesOf, makePipes, openStdio, pipePorts } from './pipes.ts'
import { threadCpuMs } from '../../../../test/support/cpu-time.ts'

const nonce = '0123456789abcdef'
const mark = Buffer.from(`\0sync ${nonce}`)

function reader() {
  const frames: Array<readonly [number, string]> = []
  return { frames, take: framesOf(nonce, (which, data) => void frames.push([which, data.toString('latin1')])) }
}

describe('frames from a sandbox', () => {
  test('are parsed for any chunk size; everything before the echo of the nonce is ignored', () => {
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
    ['a frame that is too long', Buffer.from([0, 0xff, 0xff, 65])],
  ])('make the parser throw GuestFault if there is %s', (_, bytes) => {
    const { take } = reader()
    take(mark)
    expect(() => take(bytes)).toThrow(GuestFault)
  })

  test('that are a megabyte of random bytes are ignored or cause a GuestFault within 50 ms', async () => {
    const noise = randomBytes(1 << 20)
    for (const prefix of [Buffer.alloc(0), mark]) {
      const { take } = reader()
      const takeAll = () => {
        for (let at = 0; at < noise.length; at += 65_536)
          take(Buffer.concat([at === 0 ? prefix : Buffer.alloc(0), noise.subarray(at, at + 65_536)]))
      }
      const usedMs = await threadCpuMs(() => {
        try {
          takeAll()
        } catch (error) {
          expect(error).toBeInstanceOf(GuestFault)
        }
      })
      expect(usedMs).toBeLessThan(50)
    }
  })
})

describe('frames for a sandbox', () => {
  test('have the size of one page each, except for the last frame', () => {
    for (const bytes of [1, 4092, 4093, 4094, 3 * 4093, 20_000]) {
      const data = randomBytes(bytes)
      const frames = framesFor(1, data)
      const found: Buffer[] = []
      for (let at = 0; at < frames.length; ) {
        const length = frames.readUInt16LE(at + 1)
        expect([frames[at], at % 4096]).toEqual([1, 0])
        found.push(frames.subarray(at + 3, at + 3 + length))
        at += 3 + length
      }
      expect(Buffer.concat(found).equals(data)).toBe(true)
    }
  })

  test('arrive complete and in order, even if the pipe is read slowly', async () => {
    await using undo = new AsyncDisposableStack()
    const dir = await mkdtemp(join(tmpdir(), 'mote-test-'))
    undo.defer(() => rm(dir, { recursive: true, force: true }))
    await makePipes(dir, run)
    for (const handle of await openStdio(dir)) undo.defer(() => handle.close())
    const control = await pipePorts(dir).control()
    undo.defer(() => void control.destroy())
    const fd = openSync(join(dir, 'in.pipe'), 'r')
    undo.defer(() => closeSync(fd))
    const sent = randomBytes(1 << 20)
    control.write(sent)
    const buffer = Buffer.alloc(5_000)
    const found: Buffer[] = []
    let rest = Buffer.alloc(0)
    for (let received = 0; received < sent.length; await nextTurn()) {
      const part = buffer.subarray(0, readSync(fd, buffer, 0, 1 + ((received * 7) % buffer.length), null))
      rest = Buffer.concat([rest, part])
      while (rest.length >= 3 && rest.length >= 3 + rest.readUInt16LE(1)) {
        const end = 3 + rest.readUInt16LE(1)
        expect(end).toBeLessThanOrEqual(4096)
        // Skip the first frame, in which the agent asks the guest to echo a nonce.
        if (rest[0] === 0) {
          found.push(Buffer.from(rest.subarray(3, end)))
          received += end - 3
        }
        rest = rest.subarray(end)
      }
    }
    expect(Buffer.concat(found).equals(sent)).toBe(true)
  })
})

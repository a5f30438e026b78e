import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodeData, encodeDataInPlace } from '../session-stream.ts'
import { decodeInput, decodeOutput, encodeInput, encodeOutput } from './session-bytes.ts'

const data = Uint8Array.from({ length: 200_000 }, (_, n) => n % 251)
const end = { reason: 'exited', code: 3, total: { stdout: 200_007, stderr: 2 } } as const

test('output is decoded in parts of 64 KiB, each with space for a message header before it', () => {
  const stderr = { stream: 'stderr', offset: 0, lostBytes: 0, data: Uint8Array.of(1, 2) } as const
  const bytes = encodeOutput({
    parts: [{ stream: 'stdout', offset: 7, lostBytes: 5, data }, stderr],
    end,
    windowBytes: 1 << 21,
  })
  const output = decodeOutput(bytes)
  expect(output).toMatchObject({ end, windowBytes: 1 << 21 })
  expect(output.parts.map(({ stream, offset, lostBytes }) => [stream, offset, lostBytes])).toEqual([
    ['stdout', 7, 5],
    ['stdout', 7 + 65_536, 0],
    ['stdout', 7 + 131_072, 0],
    ['stdout', 7 + 196_608, 0],
    ['stderr', 0, 0],
  ])
  const messages = output.parts.map(part => decodeData(encodeDataInPlace(part.stream, part.offset, part.data)))
  const stdout = messages.flatMap(message => (message?.stream === 'stdout' ? [message.data] : []))
  expect(Buffer.concat(stdout).equals(data)).toBe(true)
  expect(messages.at(-1)).toMatchObject({ stream: 'stderr', position: 0, data: Uint8Array.of(1, 2) })
})

test('input is decoded with its position, and refused if it exceeds the maximum of one request', () => {
  const at = { vmId: 'vm-1', sessionId: 'a', offset: 9 }
  const input = decodeInput(encodeInput(at, [data.subarray(0, 10), data.subarray(10)]))
  expect(input).toMatchObject(at)
  expect(Buffer.from(input.data).equals(data)).toBe(true)
  expect(() => decodeInput(encodeInput(at, [new Uint8Array((1 << 19) + 1)]))).toThrow('too much data')
  expect(() => decodeInput(encodeInput({ ...at, offset: -1 }, []))).toThrow('contract')
})

test('invalid messages are refused', () => {
  const good = encodeOutput({ parts: [{ stream: 'stdout', offset: 0, lostBytes: 0, data }], end: null, windowBytes: 1 })
  expect(() => decodeOutput(good.subarray(0, -1))).toThrow('length')
  expect(() => decodeOutput(Buffer.concat([good, Buffer.from('x')]))).toThrow('length')
  const head = (value: unknown) => encodeInput(value as never, [])
  const part = { stream: 'stdin', offset: 0, lostBytes: 0, bytes: 0 }
  expect(() => decodeOutput(head({ parts: [part], end: null, windowBytes: 1 }))).toThrow('contract')
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), bytes => {
      expect(() => decodeOutput(bytes)).toThrow()
      expect(() => decodeInput(bytes)).toThrow()
    }),
  )
})

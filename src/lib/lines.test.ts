import fc from 'fast-check'
import { expect, it } from 'vitest'
import { lineReader } from './lines.ts'

const reader = (maxBytes: number) => {
  const lines: string[] = []
  let over = 0
  const read = lineReader(
    maxBytes,
    line => lines.push(line),
    () => (over += 1),
  )
  return { lines, read, over: () => over }
}

it('lines are the same however the stream is split, even within a character', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 200 }), fc.integer({ min: 1, max: 20 }), (text, cut) => {
      const data = Buffer.from(`${text}\nend\n`)
      const { lines, read, over } = reader(1000)
      for (let at = 0; at < data.length; at += cut) read(data.subarray(at, at + cut))
      expect(lines).toEqual(`${text}\nend`.split('\n').filter(line => line !== ''))
      expect(over()).toBe(0)
    }),
  )
})

it.each([
  ['in one part', ['123456789\n']],
  ['in many', ['123', '456', '789']],
  ['behind others', ['a\nb\n123456789\nc\n']],
])('a line that is too long, %s, is reported once and ends reading', (_, parts) => {
  const { lines, read, over } = reader(8)
  for (const part of [...parts, 'more\n', 'x'.repeat(100)]) read(Buffer.from(part))
  expect(over()).toBe(1)
  expect(lines).toEqual(parts.length === 1 && parts[0]?.startsWith('a') ? ['a', 'b'] : [])
})

it('the reader returns how many lines ended in each chunk', () => {
  const { read } = reader(8)
  expect([read(Buffer.from('a')), read(Buffer.from('b\n\nc')), read(Buffer.from('\n'))]).toEqual([0, 2, 1])
})

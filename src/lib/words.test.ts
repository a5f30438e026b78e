import fc from 'fast-check'
import { expect, it } from 'vitest'
import { decodeWord, encodeWord } from './words.ts'

it('any text is the same after encoding and decoding', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('a', ' ', '%', '\n', '\u0001', 'é', '漢', '😀'), minLength: 1 }),
      text => {
        expect(decodeWord(encodeWord(text)).toString()).toBe(text)
      },
    ),
  )
})

it('for any input from a guest, decoding gives the same result as a replacement with a regular expression', () => {
  const pattern = (text: string) =>
    Buffer.from(
      text.replace(/%([0-9a-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
      'latin1',
    )
  const unit = fc.constantFrom('%', '0', '9', 'a', 'f', 'g', 'A', ' ', '\u00ff', '%41')
  fc.assert(
    fc.property(fc.string({ unit }), text => {
      expect(decodeWord(text)).toEqual(pattern(text))
    }),
  )
})

it('decoding a fully escaped output of 1 MiB takes less than 0.2 s of CPU', () => {
  const part = '%00'.repeat(4096)
  const started = process.cpuUsage()
  for (let n = 0; n < 256; n++) decodeWord(part)
  const { user, system } = process.cpuUsage(started)
  expect((user + system) / 1000).toBeLessThan(200)
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { byteLineReader } from '../../lib/lines.ts'
import { GuestFault } from './fault.ts'
import { maxRecordBytes, parseRecord, recordOf } from './records.ts'

const parse = (bytes: Buffer) => parseRecord(Buffer.concat([Buffer.from('7 '), bytes.subarray(0, -1)]))

describe('records', () => {
  const some = fc.oneof(
    fc.uint8Array({ maxLength: 5_000 }),
    fc.array(fc.constantFrom(10, 32, 0, 255), { maxLength: 3_000 }).map(bytes => Uint8Array.from(bytes)),
    fc.nat(200_000).map(length => Uint8Array.from(Buffer.alloc(length, 'abcdefgh\n'))),
  )

  it('contain no newline except their last byte, respect the size limit, and decode to the original data', () => {
    fc.assert(
      fc.property(some, fc.integer({ min: 3, max: maxRecordBytes }), (data, most) => {
        for (let at = 0; at < data.length; ) {
          const rest = data.subarray(at)
          const { bytes, length } = recordOf(rest, most)
          expect([bytes.indexOf(10), length > 0, bytes.length <= most + 13]).toEqual([bytes.length - 1, true, true])
          expect(parse(bytes).data.equals(rest.subarray(0, length))).toBe(true)
          at += length
        }
      }),
    )
  })

  it('decoding random bytes throws GuestFault or returns no more data than the input has', () => {
    const digits = fc.constantFrom(0x40, 0x41, 0x7f, 0xc0, 0xff, 0x00, 0x20, 0x30)
    const any = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc
        .tuple(fc.nat(60), fc.nat(60), fc.array(digits, { maxLength: 80 }))
        .map(([length, size, rest]) =>
          Uint8Array.from(Buffer.concat([Buffer.from(`7 ${length} ${size} `), Buffer.from(rest)])),
        ),
    )
    fc.assert(
      fc.property(any, bytes => {
        try {
          const { offset, data } = parseRecord(Buffer.from(bytes))
          expect([Number.isSafeInteger(offset), data.length <= bytes.length]).toEqual([true, true])
        } catch (error) {
          if (!(error instanceof GuestFault)) throw error
        }
      }),
      { numRuns: 2_000 },
    )
  })

  it('the most expensive record and the most expensive chunk of lines are parsed in less than 50 ms', () => {
    const dense = recordOf(Buffer.alloc(maxRecordBytes, '\n')).bytes
    const lines = byteLineReader(
      65_536,
      () => undefined,
      () => undefined,
    )
    const took = (act: () => unknown) => {
      const startedMs = performance.now()
      act()
      return performance.now() - startedMs
    }
    // Use the fastest of five runs, because other load on the machine only adds time.
    for (const act of [() => parse(Buffer.from(dense)), () => lines(Buffer.alloc(65_536, 'x\n'))])
      expect(Math.min(...Array.from({ length: 5 }, () => took(act)))).toBeLessThan(50)
  })
})

describe('byteLineReader', () => {
  const read = (chunks: readonly string[], maxBytes = 10) => {
    const lines: string[] = []
    let overs = 0
    const take = byteLineReader(
      maxBytes,
      line => lines.push(line.toString()),
      () => (overs += 1),
    )
    const counts = chunks.map(chunk => take(Buffer.from(chunk)))
    return { lines, overs, counts }
  }

  it('returns the same lines for any chunk size, and skips empty lines', () => {
    const text = 'one\n\ntwo\nthree\nfour'
    for (const size of [1, 2, 3, 5, text.length]) {
      const chunks = Array.from({ length: Math.ceil(text.length / size) }, (_, n) =>
        text.slice(n * size, (n + 1) * size),
      )
      expect(read(chunks).lines).toEqual(['one', 'two', 'three'])
    }
  })

  it('stops at a line that exceeds the limit, even before the line is complete', () => {
    expect(read(['a\n0123456789', '0', 'b\n'])).toMatchObject({ lines: ['a'], counts: [1, 0, 0] })
    expect(read(['a\n01234567890\nb\n']).lines).toEqual(['a'])
    expect(read(['0123456789\n']).lines).toEqual(['0123456789'])
  })
})

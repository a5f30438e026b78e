import { describe, expect, it } from 'vitest'
import { requestIdOf, traceOf } from './trace.ts'

const trace = '4bf92f3577b34da6a3ce929d0e0e4736'
const span = '00f067aa0ba902b7'

describe('traceOf', () => {
  it('continues a valid trace with a new span', () => {
    const ours = traceOf(`00-${trace}-${span}-01`)
    expect(ours.traceId).toBe(trace)
    expect(ours.traceparent).toMatch(new RegExp(`^00-${trace}-[0-9a-f]{16}-01$`))
    expect(ours.traceparent).not.toContain(span)
    expect(traceOf(`01-${trace}-${span}-01-more`).traceId, 'a later version').toBe(trace)
  })
  it.each([
    undefined,
    '',
    `00-${'0'.repeat(32)}-${span}-01`,
    `00-${trace}-${'0'.repeat(16)}-01`,
    `ff-${trace}-${span}-01`,
    `00-${trace.toUpperCase()}-${span}-01`,
    `00-${trace}-${span}-01-more`,
    `00-${trace}-${span}`,
  ])('starts a new trace for %s', header => {
    const ours = traceOf(header)
    expect(ours.traceId).toMatch(/^[0-9a-f]{32}$/)
    expect(ours.traceId).not.toBe(trace)
  })
})

describe('requestIdOf', () => {
  it("keeps a client's request id that is safe to log", () => expect(requestIdOf('abc-123:4')).toBe('abc-123:4'))
  it.each([undefined, '', 'a b', 'a\n', 'x'.repeat(129), ['a', 'b'], '<script>'])('replaces %s', header =>
    expect(requestIdOf(header)).toMatch(/^[0-9a-f-]{36}$/),
  )
})

import { expect, test } from 'vitest'
import { encodeEvent } from '../control/http/sse.ts'
import type { LogLine } from './agent.ts'
import { decodeLogPage, encodeLogPage, logEvent } from './log-page.ts'

const owner = { vmId: 'vm_1', deploymentId: 'dep_1' }
const line = (n: number, text: string): LogLine => ({
  atUs: 1_700_000_000_000_000 + n * 700,
  stream: 'stderr',
  line: text,
})

test('a log line is encoded like any other event, whatever its text', () => {
  const texts = ['', 'plain', '"quoted" \\ back', 'tab\t nul\u0000 cr\r', 'ä € 😀', '\ud800 alone', '\u2028']
  for (const [n, text] of texts.entries()) {
    const { atUs, stream } = line(n, text)
    const at = new Date(atUs / 1000).toISOString()
    const data = { at, source: 'app', stream, line: text, deployment_id: 'dep_1', vm_id: 'vm_1' }
    expect(logEvent(line(n, text), owner)).toBe(encodeEvent({ event: 'log', id: String(atUs), data }))
  }
  const lines = texts.map((text, n) => line(n, text))
  const { head, events } = decodeLogPage(encodeLogPage(lines, owner, 100_000))
  expect(head).toEqual({ lastUs: lines.at(-1)?.atUs, more: false })
  expect(String(events)).toBe(lines.map(one => logEvent(one, owner)).join(''))
})

test('a page with the longest lines ends at its limit and sets `more`', () => {
  const lines = Array.from({ length: 50 }, (_, n) => line(n, '\u0001'.repeat(16_384)))
  const bytes = encodeLogPage(lines, owner, 512 * 1024)
  const { head, events } = decodeLogPage(bytes)
  expect(bytes.length).toBeLessThan(700_000)
  expect(head).toEqual({ lastUs: lines[5]?.atUs, more: true })
  expect(String(events)).toBe(
    lines
      .slice(0, 6)
      .map(one => logEvent(one, owner))
      .join(''),
  )
})

test('an empty page is valid, and bytes without a head are not', () => {
  const { head, events } = decodeLogPage(encodeLogPage([], owner, 1000))
  expect(head).toEqual({ lastUs: 0, more: false })
  expect(events).toHaveLength(0)
  expect(() => decodeLogPage(Buffer.from('id: 1'))).toThrow('no head')
  expect(() => decodeLogPage(Buffer.from('{"lastUs":"x"}\n'))).toThrow()
})

import type { LogLine } from '@mote/client'
import { describe, expect, it } from 'vitest'
import { append, asText, emptyLog, mostLines, plain, search } from './log-buffer.ts'

const line = (text: string): LogLine => ({
  at: '2026-01-02T03:04:05.678Z',
  source: 'app',
  stream: 'stdout',
  line: text,
  deployment_id: 'd',
  vm_id: 'vm-12345678',
})
const lines = (count: number, from = 0) => Array.from({ length: count }, (_, index) => line(`line ${from + index}`))

describe('a log buffer', () => {
  it('keeps the newest lines and counts dropped ones', () => {
    const full = append(append(emptyLog(), lines(mostLines), ''), lines(1, mostLines), '')
    expect(full.lines.length + full.dropped).toBe(mostLines + 1)
    expect(full.dropped).toBeGreaterThan(0)
    expect(full.lines.at(-1)?.line).toBe(`line ${mostLines}`)
    expect(full.lines[0]?.line).toBe(`line ${full.dropped}`)
  })

  it('searches existing and new lines case-insensitively', () => {
    const found = search(append(emptyLog(), [line('Error: a'), line('fine')], ''), 'ERROR')
    expect(found.found).toEqual([0])
    expect(append(found, [line('another error'), line('fine')], 'ERROR').found).toEqual([0, 2])
    expect(search(found, '').found).toBeUndefined()
  })

  it('still finds the right lines after dropping old ones', () => {
    const before = search(append(emptyLog(), [...lines(mostLines - 1), line('needle')], ''), 'needle')
    const after = append(before, lines(1), 'needle')
    expect(after.found?.map(index => after.lines[index]?.line)).toEqual(['needle'])
  })

  it('appends and searches 100,000 lines in less than two seconds', () => {
    const startedMs = performance.now()
    let log = emptyLog()
    for (let part = 0; part < 1000; part++) log = append(log, lines(100, part * 100), '99')
    expect(search(log, 'LINE 99999').found).toHaveLength(1)
    expect(performance.now() - startedMs).toBeLessThan(2000)
  })

  it('removes terminal colors', () => {
    expect(plain('\u001b[1;31mred\u001b[0m [31m]')).toBe('red [31m]')
    expect(asText(append(emptyLog(), [line('x')], ''))).toBe('2026-01-02T03:04:05.678Z vm-12345 stdout x\n')
  })
})

import { expect, it } from 'vitest'
import { canLink, withLinks } from './hyperlinks.ts'
import { table } from './output.ts'

it('a table is cut to the width of the terminal, except ids and narrow columns', () => {
  const id = '0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'
  const lines = table(['NAME', 'TEXT', 'ID'], [['web', 'x'.repeat(200), id]], 80).split('\n')
  expect(lines[1]).toBe(`web   ${'x'.repeat(35)}…  ${id}`)
  expect(lines.every(line => line.length <= 80)).toBe(true)
  expect(table(['A'], [['x'.repeat(200)]], undefined)).toContain('x'.repeat(200))
  expect(table(['A', 'B'], [['short', id]], 10)).toContain(`short  ${id}`)
})

it('URLs become links to exactly the URL that they show', () => {
  const link = (url: string) => `\u001b]8;;${url}\u001b\\${url}\u001b]8;;\u001b\\`
  expect(withLinks('web serves at http://web.localhost:7080. Done')).toBe(
    `web serves at ${link('http://web.localhost:7080')}. Done`,
  )
  expect(withLinks('cut https://example.com/a…')).toBe('cut https://example.com/a…')
  expect(withLinks('javascript:alert(1) ftp://x')).toBe('javascript:alert(1) ftp://x')
})

it('links are printed only on terminals that support them', () => {
  expect(canLink({ VTE_VERSION: '7600', TERM: 'xterm' }, true)).toBe(true)
  expect(canLink({ VTE_VERSION: '7600', TERM: 'xterm' }, false)).toBe(false)
  expect(canLink({ TERM: 'xterm' }, true)).toBe(false)
  expect(canLink({ TERM: 'xterm', FORCE_HYPERLINK: '1' }, false)).toBe(true)
  expect(canLink({ TERM_PROGRAM: 'WezTerm', CI: '1' }, true)).toBe(false)
})

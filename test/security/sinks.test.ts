/** The dashboard renders tenants' values as text only: it never uses an API that parses HTML or code from a string. */
import { globSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

const sinks =
  /\b(innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|createContextualFragment|parseFromString|srcdoc|srcDoc|setHTMLUnsafe)\b|document\.write|\beval\(|new Function\(|javascript:/

const sinksIn = (text: string) => text.split('\n').filter(line => sinks.test(line))

it('the search finds calls that parse HTML or code', () => {
  const bad = [
    'x.innerHTML = name',
    '<p dangerouslySetInnerHTML={{ __html: name }} />',
    'eval(name)',
    'document.write(a)',
  ]
  expect(bad.flatMap(sinksIn)).toEqual(bad)
})

it('no source file of the dashboard parses HTML or code from a string', () => {
  const files = globSync('dashboard/**/*.{ts,tsx,html}', { exclude: ['**/node_modules/**', '**/dist/**'] })
  expect(files.length).toBeGreaterThan(50)
  const found = files
    .filter(file => !file.endsWith('.test.ts') && !file.endsWith('.test.tsx'))
    .flatMap(file => sinksIn(readFileSync(file, 'utf8')).map(line => `${file}: ${line.trim()}`))
  expect(found).toEqual([])
})

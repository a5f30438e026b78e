import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { currentPage } from '../scripts/app-file-docs.ts'
import { parseAppFile } from '../src/appfile/parse.ts'

const page = readFileSync('docs/mote-toml.md', 'utf8')

it('docs/mote-toml.md lists exactly the keys of the schema', () => {
  expect(page === currentPage(), 'run `node scripts/app-file-docs.ts` and commit what it writes').toBe(true)
})

it('the examples of docs/mote-toml.md are valid', () => {
  const examples = [...page.matchAll(/```toml\n([\s\S]*?)```/g)].map(match => match[1] ?? '')
  expect(examples.length).toBeGreaterThan(0)
  for (const example of examples) expect(parseAppFile(example).app).toBe('shop')
})

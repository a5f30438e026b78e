/** Not repeated on the distribution's PostgreSQL: this file uses no database. */
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { currentApiPage } from '../scripts/api-page.ts'
import { allOperations } from '../src/control/operations.ts'

it('docs/api.md lists every operation', () => {
  const page = readFileSync('docs/api.md', 'utf8')
  expect(page === currentApiPage(), 'run `node scripts/api-page.ts` and commit what it writes').toBe(true)
  const listed = [...page.matchAll(/^\| `([A-Z]+ [^`]+)` \|/gm)].map(match => match[1])
  expect(listed.sort()).toEqual(
    Object.values(allOperations)
      .map(({ method, path }) => `${method} ${path}`)
      .sort(),
  )
})

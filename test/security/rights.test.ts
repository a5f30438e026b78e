// Not repeated on the distribution's PostgreSQL: this file tests declarations of operations, not the database.
/** The table in docs/security.md states for each operation what authorizes its caller, and has no other rows. */
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { rightOf } from '../../src/control/http/right.ts'
import type { Identity } from '../support/identity.ts'
import { everyOperation, startWholeApi } from './cases.ts'

let api: Identity
beforeAll(async () => {
  api = await startWholeApi()
})
afterAll(() => api[Symbol.asyncDispose]())

it('every operation that needs no credential declares what authorizes the caller instead', () => {
  const undeclared = everyOperation(api).filter(
    ({ operation }) => operation.auth === 'none' && (operation.proof ?? '') === '',
  )
  expect(undeclared.map(({ id }) => id)).toEqual([])
})

it('docs/security.md lists each operation with its authorization', () => {
  const rows = everyOperation(api)
    .map(({ operation }) => `| \`${operation.method} ${operation.path}\` | ${rightOf(operation)} |`)
    .toSorted()
  const page = readFileSync('docs/security.md', 'utf8')
  const found = page.split('\n').filter(line => /^\| `(?:GET|POST|PUT|PATCH|DELETE) \//.test(line))
  expect(found.toSorted()).toEqual(rows)
})

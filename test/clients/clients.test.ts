// Not repeated on the distribution's PostgreSQL: this file tests generated clients, not the database.
/**
 * Clients that third-party generators make from the OpenAPI document. Each has every operation, compiles, and performs
 * a sequence of calls (a "journey") on a running cloud. `npm run test:all` runs TypeScript; `npm run test:clients` runs all.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { allOperations } from '../../src/control/operations.ts'
import { runsAll } from '../support/all-examples.ts'
import { type TestSystem, testSystem } from '../support/system.ts'
import { generators } from './generators.ts'

const isWhole = process.env['MOTE_TEST_CLIENTS'] === 'all'
const wanted = generators.filter(({ language }) => isWhole || language === 'typescript')

let system: TestSystem
let dir = ''
beforeAll(async () => {
  system = await testSystem()
  dir = await mkdtemp(join(tmpdir(), 'mote-clients-'))
  const { body } = await system.api.get('/v1/api-docs/openapi.json')
  await writeFile(join(dir, 'openapi.json'), JSON.stringify(body))
})
afterAll(async () => {
  await system?.[Symbol.asyncDispose]()
  await rm(dir, { recursive: true, force: true })
})

/** Normalizes the names of operations: `getMe`, `get_me` and `GetMe` become equal. */
const plain = (names: readonly string[]) => names.map(name => name.replaceAll('_', '').toLowerCase()).toSorted()

// Not in `npm test`: test/system/client-package.test.ts covers a generated client of TypeScript, and test/contract.test.ts
// the OpenAPI document.
describe.skipIf(!isWhole && !runsAll).each(wanted)('$language', generator => {
  const missing = generator.missing()
  if (missing !== undefined) it.skip(`the client works: skipped, ${missing}`, () => {})
  else
    it(`the client for ${generator.language} has every operation and works`, { timeout: 600_000 }, async () => {
      const client = await generator.generate(join(dir, generator.language), join(dir, 'openapi.json'))
      expect(plain(client.operations)).toEqual(plain(Object.keys(allOperations)))
      const account = [`${generator.language}@example.com`, 'quartz-otter-lantern-42']
      const printed = await client.journey(`http://127.0.0.1:${system.control.port}`, ...account)
      expect(JSON.parse(printed)).toEqual({ status: 'running', logs: true, volumes: ['data'], refused: 'name_taken' })
    })
})

// Not repeated on the distribution's PostgreSQL: this file tests declarations of operations, not the database.
/** Every declared operation is implemented, and every implemented operation is declared. */
import { pino } from 'pino'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createMemoryBus } from '../src/bus/memory.ts'
import { features } from '../src/control/app.ts'
import { createAuthenticator } from '../src/control/auth/index.ts'
import { parseControlConfig } from '../src/control/base/config.ts'
import { createLiveStats } from '../src/control/hosts/index.ts'
import { allOperations } from '../src/control/operations.ts'
import { apiDocsFeature } from '../src/control/api-docs/docs.ts'
import type { Feature, Operation } from '../src/control/http/operation.ts'
import { systemClock } from '../src/lib/clock.ts'
import { createVault } from '../src/lib/vault.ts'
import { type TestDatabase, testDatabase } from './support/database.ts'

let database: TestDatabase
let implemented: readonly Feature[] = []
const bus = createMemoryBus()

beforeAll(async () => {
  database = await testDatabase()
  const config = parseControlConfig({ MOTE_SECRET_KEY: 'test-'.repeat(8) })
  const deps = {
    config,
    bus,
    db: database.db,
    log: pino({ level: 'silent' }),
    clock: systemClock,
    vault: createVault(config.secrets),
    live: createLiveStats(systemClock),
  }
  const security = createAuthenticator(deps)
  implemented = features(deps, security)
  await security.stop()
})
afterAll(async () => {
  await bus.close()
  await database.drop()
})

it('every operation in the list of operations has a handler', () => {
  const handled = [...implemented, apiDocsFeature(allOperations)].flatMap(feature =>
    Object.entries(feature.handlers).flatMap(([id, handler]) => (handler ? [id] : [])),
  )
  const catalogue: Readonly<Record<string, Operation>> = allOperations
  // An operation that reads a single item needs no handler: the framework finds the item with the handler of its list.
  const done = new Set(handled.flatMap(id => [id, ...(catalogue[id]?.items ?? []).map(item => item.id)]))
  expect(Object.keys(allOperations).filter(id => !done.has(id))).toEqual([])
})

it('every operation of a feature is in the list of operations', () => {
  const strangers = implemented.flatMap(feature => Object.keys(feature.operations)).filter(id => !(id in allOperations))
  expect(strangers).toEqual([])
})

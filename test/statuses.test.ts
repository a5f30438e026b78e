// Not repeated on the distribution's PostgreSQL: this file tests the API, not the database server.
/** The statuses that the OpenAPI document lists for each operation are exactly those that requests provoke. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { takesKey } from '../src/control/http/write.ts'
import { allOperations } from '../src/control/operations.ts'
import { accounts } from './statuses/account.ts'
import { apps, deployments } from './statuses/compute.ts'
import { billing, probes, sourceHosts, storageNodes } from './statuses/outside.ts'
import { databases, fleet, volumes } from './statuses/storage.ts'
import * as generic from './statuses/generic.ts'
import { createWorld, type World } from './statuses/world.ts'
import { documented, pairs } from './statuses/record.ts'

let world: World
beforeAll(async () => {
  world = await createWorld()
})
afterAll(() => world?.[Symbol.asyncDispose]())

const journeys = { accounts, probes, storageNodes, billing, sourceHosts, apps, deployments, volumes, databases, fleet }
const provocations = {
  credentials: generic.credentials,
  absences: generic.absences,
  bodiesRefused: generic.bodiesRefused,
  requestsRefused: generic.requestsRefused,
  staleVersions: generic.staleVersions,
  reusedKeys: generic.reusedKeys,
  rateLimits: generic.rateLimits,
  faults: generic.faults,
}

it.each(Object.entries(journeys))('the calls in the group "%s" get the expected statuses', (_name, journey) =>
  journey(world),
)

it.each(Object.entries(provocations))('faulty requests of the kind "%s" get the expected statuses', (_name, provoke) =>
  provoke(world),
)

it('the OpenAPI document lists exactly the observed statuses', () => {
  const expected = pairs(documented)
  const { observed, provoked } = world.record
  expect({
    undocumented: observed.filter(pair => !expected.includes(pair)),
    neverProvoked: expected.filter(pair => !provoked.includes(pair)),
  }).toEqual({ undocumented: [], neverProvoked: [] })
})

it('a repeated Idempotency-Key gets the same response, even if the resource has been deleted since', async () => {
  const expected = Object.entries(allOperations).flatMap(([id, operation]) => (takesKey(operation) ? [id] : []))
  const others = []
  for (const id of expected) {
    const again = await world.repeat(id)
    if (again !== 'same answer') others.push(`${id}: ${again}`)
  }
  // These operations delete the credential or the project that a repeated request needs.
  expect(others).toEqual(['deleteMe: 401', 'changePassword: 401', 'revokeSession: 401', 'deleteProject: 404'])
})

it('docs/api-statuses.md matches the observed statuses', async () => {
  await expect(world.record.table).toMatchFileSnapshot('../docs/api-statuses.md')
})

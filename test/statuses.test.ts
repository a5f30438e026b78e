// once-is-enough: about the API, not about the server of the database.
/** Every status of every operation: what the document names is what requests provoke, neither more nor less. */
import { afterAll, beforeAll, expect, it } from 'vitest'
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
  copyTimeouts: generic.copyTimeouts,
  faults: generic.faults,
}

it.each(Object.entries(journeys))('%s', (_name, journey) => journey(world))

it.each(Object.entries(provocations))('%s', (_name, provoke) => provoke(world))

it('the document names every status that was seen, and no other', () => {
  const expected = pairs(documented)
  const { observed, provoked } = world.record
  expect({
    undocumented: observed.filter(pair => !expected.includes(pair)),
    neverProvoked: expected.filter(pair => !provoked.includes(pair)),
  }).toEqual({ undocumented: [], neverProvoked: [] })
})

it('docs/api-statuses.md is what was seen', async () => {
  await expect(world.record.table).toMatchFileSnapshot('../docs/api-statuses.md')
})

import { afterAll, expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { recordObserved } from './index.ts'
import * as store from './store.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db } = world
const host = await world.addHost()

it("an observation that is older than the recorded one is ignored, unless it is older by more than a minute: then the host's clock was set back", async () => {
  const { vmIds } = await world.deploy(await world.app())
  const vmId = vmIds[0]!
  const healthy = async () => (await store.byId(db, vmId))?.healthy
  await world.until(async () => (await healthy()) === true)
  const minuteUs = 60_000_000
  const now = 10 * minuteUs
  const say = (isHealthy: boolean, atUs: number) =>
    db.tx(tx => recordObserved(tx, host.id, { ...host.observed(vmId), healthy: isHealthy, atUs }))
  expect(await say(false, now)).toBe(true)
  expect(await say(true, now - 1)).toBe(false)
  expect(await healthy()).toBe(false)
  expect(await say(true, now + 1)).toBe(true)
  expect(await say(false, now - 2 * minuteUs)).toBe(true)
  expect(await healthy()).toBe(false)
})

/** Canaries: new versions that get a share of the requests before they get all of them. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type ComputeWorld, computeWorld, type TestApp } from '../../../test/support/compute.ts'
import { newId } from '../../lib/ids.ts'
import { createLiveStats } from '../hosts/live.ts'
import { since } from '../routing/store.ts'
import { apply } from './verbs.ts'
import { addCanaryCounts, tooManyErrors } from './canary.ts'
import { statusOf } from './rules.ts'
import * as store from './store.ts'
import { statusView } from './view.ts'

let world: ComputeWorld
beforeAll(async () => {
  world = await computeWorld()
  await world.addHost()
})
afterAll(async () => world[Symbol.asyncDispose]())

const settings = { percent: 10, seconds: 300, max_error_percent: 5, min_requests: 20 }
const find = async (id: string) => (await store.byId(world.db, id))!
const status = async (id: string) => statusOf(await find(id))
const reaches = (id: string, wanted: string) => world.until(async () => (await status(id)) === wanted)
const inPhase = (id: string, phase: string) => world.until(async () => (await find(id)).phase === phase)
const routeOf = async (app: TestApp) =>
  (await since(world.db, 0)).routes.find(({ hostname }) => hostname === `${app.name}.test`)
const count = (deploymentId: string, requests: number, failed: number) =>
  world.db.tx(tx => addCanaryCounts(tx, [{ deploymentId, requests, failed }]))
const timePasses = (id: string) =>
  world.rows(
    `UPDATE deployment SET canary_started_at = canary_started_at - interval '301 seconds' WHERE id = $1 RETURNING id`,
    id,
  )

/** Creates an app with a version that serves and a later version that is its canary. */
async function canaryOf(replicas = 1) {
  const app = await world.app({ replicas })
  await world.rows(`UPDATE app SET canary = $2 WHERE id = $1 RETURNING id`, app.id, JSON.stringify(settings))
  const old = (await world.deploy(app, { replicas })).id
  await reaches(old, 'running')
  const id = (await world.deploy(app, { replicas })).id
  await inPhase(id, 'canary')
  return { app, old, id }
}

it('the first version of an app starts without being a canary', async () => {
  const { old } = await canaryOf()
  expect((await find(old)).canaryState).toBeNull()
})

it('a canary and the active version share the route, and the active version stays the same', async () => {
  const { app, old, id } = await canaryOf(2)
  const route = await routeOf(app)
  const vmsOf = async (one: string) => (await find(one)).vms.map(vm => vm.id).toSorted()
  expect(route?.backends.map(({ vmId }) => vmId).toSorted()).toEqual(await vmsOf(old))
  expect(route?.canary).toMatchObject({ deploymentId: id, percent: 10 })
  expect(route?.canary?.backends.map(({ vmId }) => vmId).toSorted()).toEqual(await vmsOf(id))
  const d = await find(id)
  expect(d.activeDeploymentId).toBe(old)
  expect(statusOf(d)).toBe('starting')
  expect(statusView(d, createLiveStats(world.deps.clock)).canary).toMatchObject({
    state: 'running',
    percent: 10,
    requests: 0,
    failed: 0,
  })
})

it('too many failed requests fail the canary with their numbers, and the old version keeps serving', async () => {
  const { app, old, id } = await canaryOf()
  const before = (await routeOf(app))?.backends
  await count(id, 19, 2)
  await world.run('deployment')
  expect(await status(id)).toBe('starting')
  await count(id, 71, 10)
  await reaches(id, 'failed')
  const d = await find(id)
  expect(d.errorMessage).toBe('canary: 12 of 90 requests failed (13 %), more than 5 %')
  expect(d.canaryState).toBe('failed')
  expect(await status(old)).toBe('running')
  const route = await routeOf(app)
  expect(route?.backends).toEqual(before)
  expect(route?.canary).toBeUndefined()
  await world.until(async () => (await find(id)).vms.length === 0)
  // Request counts that arrive after the end of the canary are ignored.
  await count(id, 5, 5)
  expect((await find(id)).canaryRequests).toBe(90)
})

it('a canary that has not failed gets all requests once its time is over', async () => {
  const { app, old, id } = await canaryOf()
  await count(id, 100, 5)
  await world.run('deployment')
  expect(await status(id)).toBe('starting')
  await timePasses(id)
  await reaches(id, 'running')
  await reaches(old, 'superseded')
  const d = await find(id)
  expect([d.canaryState, d.activeDeploymentId]).toEqual(['passed', id])
  expect((await routeOf(app))?.canary).toBeUndefined()
})

it('a crash of a VM fails the canary', async () => {
  const { old, id } = await canaryOf()
  const [vm] = (await find(id)).vms
  await world.rows(
    `UPDATE vm SET seen_state = 'crashed', healthy = false, seen_error = 'Exit code 3.' WHERE id = $1 RETURNING id`,
    vm?.id ?? '',
  )
  await world.rows(`UPDATE machine SET wake_at = now() WHERE id = $1 RETURNING id`, id)
  await world.run('deployment')
  expect((await find(id)).errorMessage).toContain('canary: Exit code 3.')
  expect(await status(old)).toBe('running')
})

it('activating the canary ends its phase early, and it gets all requests', async () => {
  const { old, id } = await canaryOf()
  await world.db.tx(async tx => {
    await store.hold(tx, id)
    await apply(tx, 'activate', (await store.byId(tx, id))!)
  })
  await reaches(id, 'running')
  await reaches(old, 'superseded')
  expect((await find(id)).canaryState).toBe('passed')
})

it('a later canary replaces the first one, and cancelling it leaves the old version serving', async () => {
  const { app, old, id } = await canaryOf()
  const { id: next } = await world.deploy(app)
  await inPhase(next, 'canary')
  await reaches(id, 'superseded')
  expect((await find(id)).canaryState).toBe('cancelled')
  expect((await routeOf(app))?.canary?.deploymentId).toBe(next)
  await world.db.tx(async tx => {
    await store.hold(tx, next)
    await apply(tx, 'cancel', (await store.byId(tx, next))!)
  })
  await reaches(next, 'cancelled')
  expect((await find(next)).canaryState).toBe('cancelled')
  expect(await status(old)).toBe('running')
})

it('a rollback gets all requests at once, without being a canary', async () => {
  const { old, id } = await canaryOf()
  await timePasses(id)
  await reaches(id, 'running')
  await reaches(old, 'superseded')
  await world.db.tx(async tx => {
    await store.hold(tx, old)
    await apply(tx, 'activate', (await store.byId(tx, old))!)
  })
  await reaches(old, 'running')
  expect((await find(old)).canaryState).toBeNull()
})

it("a canary's failed requests are evaluated only from the minimum number of requests on", () => {
  expect(tooManyErrors(settings, 19, 19)).toBeUndefined()
  expect(tooManyErrors(settings, 20, 1)).toBeUndefined()
  expect(tooManyErrors(settings, 40, 3)).toBe('canary: 3 of 40 requests failed (7.5 %), more than 5 %')
})

it('request counts of unknown deployments are ignored', async () => {
  await count(newId(), 3, 1)
})

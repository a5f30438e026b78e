/** Scale to zero with faults and races: failures while an app goes to sleep or wakes, and concurrent changes. */
import { afterAll, expect, it } from 'vitest'
import { computeWorld, type TestApp } from '../../../test/support/compute.ts'
import { idleApps, recordTraffic, wakeApp, wakeAppNow } from '../scaling/index.ts'
import { statement } from '../../db/db.ts'
import * as store from './store.ts'

const world = await computeWorld({ idleSeconds: 0 })
afterAll(async () => world[Symbol.asyncDispose]())
const { db } = world
const host = await world.addHost()

const sleeper = async (image = 'example/app:1') => {
  const app = await world.app({ minReplicas: 0 })
  const { id } = await world.deploy(app, { image })
  await world.until(async () => (await store.byId(db, id))?.phase === 'serving')
  return { app, id }
}
const state = async ({ id }: TestApp) =>
  (await world.rows<{ state: string }>(`SELECT scale_state AS state FROM app WHERE id = $1`, id))[0]?.state
const route = async ({ id }: TestApp) =>
  (await world.rows<{ state: string }>(`SELECT state FROM route WHERE app_id = $1`, id))[0]?.state
const fallAsleep = async (app: TestApp) => {
  await idleApps(world.deps).run({ signal: new AbortController().signal, now: new Date() })
  expect(await state(app)).toBe('idle')
  expect(await route(app)).toBe('sleeping')
  await world.until(async () => (await state(app)) === 'scaled_to_zero')
  await world.until(async () => (await world.rows(`SELECT id FROM vm WHERE app_id = $1`, app.id)).length === 0)
}
const wake = (app: TestApp) => db.tx(tx => wakeApp(tx, app.id))

it('a failed wake leaves the app asleep, and the next wake starts it without the snapshot', async () => {
  const { app, id } = await sleeper()
  await fallAsleep(app)
  expect((await store.byId(db, id))?.sleepSnapshot?.state).toBe('ready')
  host.behaviour.set('example/app:1', 'crash')
  await wake(app)
  await world.until(async () => (await store.byId(db, id))?.phase === 'waking')
  await world.until(async () => (await state(app)) === 'scaled_to_zero')
  expect(await route(app)).toBe('sleeping')
  expect((await store.byId(db, id))?.sleepSnapshot).toBeNull()
  host.behaviour.clear()
  await wake(app)
  await wake(app)
  await world.until(async () => (await state(app)) === 'active')
  expect(await route(app)).toBe('live')
  await world.deploymentsEnd(app)
})

it('a request in the idle state keeps the app awake, but a late report of an earlier request does not', async () => {
  const { app } = await sleeper()
  const reported = (ageMs: number) => db.tx(tx => recordTraffic(tx, [{ appId: app.id, ageMs }]))
  const asked = () => world.rows(`SELECT last_request_at AS at FROM app WHERE id = $1`, app.id)
  await idleApps(world.deps).run({ signal: new AbortController().signal, now: new Date() })
  await reported(3_600_000)
  expect([await state(app), await route(app)]).toEqual(['idle', 'sleeping'])
  await reported(0)
  expect([await state(app), await route(app)]).toEqual(['active', 'live'])
  const last = await asked()
  await reported(3_600_000)
  expect(await asked()).toEqual(last)
  await world.deploymentsEnd(app)
})

it("a woken app becomes active in the commit that records its healthy VM, before the next step of its deployment's workflow", async () => {
  const { app, id } = await sleeper()
  await fallAsleep(app)
  await wake(app)
  await world.until(async () => (await store.byId(db, id))?.phase === 'waking')
  for (let n = 0; n < 20 && (await state(app)) !== 'active'; n++) {
    await world.run('vm')
    await world.hostsMove()
  }
  expect((await store.byId(db, id))?.phase).toBe('waking')
  expect(await route(app)).toBe('live')
  await world.until(async () => (await store.byId(db, id))?.phase === 'serving')
  expect((await store.byId(db, id))?.sleepSnapshot).toBeNull()
  await world.deploymentsEnd(app)
})

const stopIt = statement('test.stopIt', `UPDATE deployment SET want = 'stopped' WHERE id = $1`)
const waiters = statement(
  'test.waiters',
  `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
)
const wakeNow = (app: TestApp, hostTimeoutSeconds = 3600, afterMs = 0) =>
  db.tx(tx => wakeAppNow(tx, app.id, { hostTimeoutSeconds, afterMs }))
const phasesOf = async ({ id }: TestApp) =>
  (
    await world.rows<{ phase: string }>(
      `SELECT kind || ' ' || phase AS phase FROM machine WHERE id IN (
         SELECT id FROM deployment WHERE app_id = $1 UNION SELECT id FROM vm WHERE app_id = $1) ORDER BY kind`,
      id,
    )
  ).map(row => row.phase)

it('an app whose snapshot host is usable is woken in one transaction, and concurrent requests wake it only once', async () => {
  const { app, id } = await sleeper()
  await fallAsleep(app)
  const used = async () =>
    (await world.rows<{ vcpus: number }>(`SELECT used_vcpus AS vcpus FROM host WHERE id = $1`, host.id))[0]
  const before = await used()
  const both = await Promise.all([wakeNow(app), wakeNow(app)])
  const [vm, ...more] = both.filter(one => one !== undefined)
  expect(more).toEqual([])
  expect(vm).toMatchObject({ hostId: host.id, hypervisor: 'fake', generation: 2, want: 'running', fromRenew: true })
  expect(vm?.fromSnapshotId).toBe((await store.byId(db, id))?.sleepSnapshot?.id)
  expect(await phasesOf(app)).toEqual(['deployment waking', 'vm starting'])
  expect(await used()).toEqual({ vcpus: (before?.vcpus ?? 0) + 1 })
  await world.until(async () => (await state(app)) === 'active')
  expect((await store.byId(db, id))?.vms.map(one => one.id)).toEqual([vm?.id])
  await world.deploymentsEnd(app)
})

it.each([
  ['its host is cordoned', `UPDATE host SET cordoned = true WHERE id = $1 RETURNING id`],
  ['its host does not report', `UPDATE host SET last_seen_at = now() - interval '2 hours' WHERE id = $1 RETURNING id`],
  ['its host does not offer its hypervisor', `UPDATE host SET hypervisors = '[]' WHERE id = $1 RETURNING id`],
])('a request leaves the wake of an app to the workflows when %s', async (_, change) => {
  const { app } = await sleeper()
  await fallAsleep(app)
  const [was] = await world.rows<{ hypervisors: unknown }>(`SELECT hypervisors FROM host WHERE id = $1`, host.id)
  await world.rows(change, host.id)
  expect(await wakeNow(app)).toBeUndefined()
  expect(await phasesOf(app)).toEqual(['deployment sleeping'])
  expect(await state(app)).toBe('warming_up')
  await world.rows(
    `UPDATE host SET cordoned = false, last_seen_at = now(), hypervisors = $2 WHERE id = $1 RETURNING id`,
    host.id,
    JSON.stringify(was?.hypervisors),
  )
  await world.until(async () => (await state(app)) === 'active')
  await world.deploymentsEnd(app)
})

it('the VM of a woken app waits for capacity like any other VM when the host of its snapshot is full', async () => {
  const { app } = await sleeper()
  await fallAsleep(app)
  await world.rows(`UPDATE host SET used_vcpus = vcpus WHERE id = $1 RETURNING id`, host.id)
  expect(await wakeNow(app)).toBeUndefined()
  expect(await phasesOf(app)).toEqual(['deployment waking', 'vm placing'])
  await world.rows(`UPDATE host SET used_vcpus = 0 WHERE id = $1 RETURNING id`, host.id)
  await world.until(async () => (await state(app)) === 'active')
  await world.deploymentsEnd(app)
})

it("a wake starts no VM if the deployment is stopped while the wake waits for the deployment's lock", async () => {
  const { app, id } = await sleeper()
  await fallAsleep(app)
  const { promise: held, resolve: hold } = Promise.withResolvers<void>()
  const { promise: goOn, resolve: release } = Promise.withResolvers<void>()
  const stopping = db.tx(async tx => {
    await store.hold(tx, id)
    await tx.run(stopIt, [id])
    hold()
    await goOn
  })
  await held
  const waking = wakeNow(app)
  await expect.poll(() => db.rows(waiters), { timeout: 10_000 }).not.toEqual([])
  release()
  await stopping
  expect(await waking).toBeUndefined()
  expect(await world.rows(`SELECT id FROM vm WHERE app_id = $1`, app.id)).toEqual([])
  await world.deploymentsEnd(app)
})

it('a request leaves the wake of an app to the workflows while a runner holds the lease of its deployment', async () => {
  const { app, id } = await sleeper()
  await fallAsleep(app)
  await world.rows(
    `UPDATE machine SET lease = gen_random_uuid(), lease_until = now() + interval '1 hour', runner = gen_random_uuid()
     WHERE id = $1 RETURNING id`,
    id,
  )
  expect(await wakeNow(app)).toBeUndefined()
  expect(await phasesOf(app)).toEqual(['deployment sleeping'])
  await world.rows(`UPDATE machine SET lease = NULL, lease_until = NULL, runner = NULL WHERE id = $1 RETURNING id`, id)
  await world.until(async () => (await state(app)) === 'active')
  await world.deploymentsEnd(app)
})

it('a woken app boots on another host if the host of its snapshot is lost', async () => {
  const { app } = await sleeper()
  await fallAsleep(app)
  const other = await world.addHost()
  await world.rows(`UPDATE host SET lost_at = now() WHERE id = $1 RETURNING id`, host.id)
  await wake(app)
  await world.until(async () => (await state(app)) === 'active')
  expect(other.vms.size).toBe(1)
  await world.rows(`UPDATE host SET lost_at = NULL RETURNING id`)
  await world.deploymentsEnd(app)
})

it("a request in the idle state keeps the app's VM", async () => {
  const { app, id } = await sleeper()
  const before = (await store.byId(db, id))?.vms.map(vm => vm.id)
  await idleApps(world.deps).run({ signal: new AbortController().signal, now: new Date() })
  expect(await state(app)).toBe('idle')
  await wake(app)
  expect(await route(app)).toBe('live')
  for (let n = 0; n < 5; n++) await world.until(async () => false, 1).catch(() => undefined)
  expect(await state(app)).toBe('active')
  expect((await store.byId(db, id))?.vms.map(vm => vm.id)).toEqual(before)
  await world.deploymentsEnd(app)
})

it('a new deployment of a sleeping app becomes active and is awake', async () => {
  const { app, id } = await sleeper()
  await fallAsleep(app)
  const next = await world.deploy(app)
  await world.until(async () => (await store.byId(db, next.id))?.activeDeploymentId === next.id)
  await world.until(async () => (await store.byId(db, id))?.outcome === 'superseded')
  expect(await state(app)).toBe('active')
  await world.until(async () => (await world.rows(`SELECT id FROM vm_snapshot WHERE app_id = $1`, app.id)).length === 0)
  await world.deploymentsEnd(app)
})

it('when two rollouts become healthy together, the later one always serves', async () => {
  for (let n = 0; n < 8; n++) {
    const app = await world.app()
    await world.deploy(app)
    const { id } = await world.deploy(app)
    await world.until(
      async () =>
        (await world.rows(`SELECT id FROM deployment WHERE app_id = $1 AND outcome = 'superseded'`, app.id)).length ===
        1,
    )
    expect((await store.byId(db, id))?.activeDeploymentId).toBe(id)
    await world.deploymentsEnd(app)
  }
})

/** Tests databases on a page server: the requests to it, their order, and recovery from lost responses. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type TestSystem, type TestUser, testSystem } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'
import { parseControlConfig } from '../base/config.ts'
import { pageserver } from './pageserver.ts'
import { type RecordedPageserver, recordedPageserver } from '../../../test/support/control/databases.ts'

let server: RecordedPageserver
let secondServer: RecordedPageserver
let system: TestSystem
let user: TestUser

beforeAll(async () => {
  server = await recordedPageserver()
  secondServer = await recordedPageserver()
  const { databases } = parseControlConfig({
    MOTE_SECRET_KEY: 'test-'.repeat(8),
    MOTE_DATABASE_BACKEND: 'neon',
    MOTE_PAGESERVER_URL: server.url,
    MOTE_NEON_IMAGE: 'example/compute:15',
    // The page server with node id 3 may call /re-attach, but gets no new tenants.
    MOTE_STORAGE_NODES: `2=${secondServer.url},3`,
  })
  system = await testSystem({ config: { databases } })
  user = await system.user()
})
afterAll(async () => {
  await system[Symbol.asyncDispose]()
  await server[Symbol.asyncDispose]()
  await secondServer[Symbol.asyncDispose]()
})

const database = async (id: string) => (await user.get(`/v1/databases/${id}`)).body
const running = (id: string) =>
  until(async () => (await database(id)).status === 'running', {
    everyMs: 50,
    timeoutMs: 90_000,
    what: 'the database runs',
  })

it('the configuration requires the URL of the page server', () =>
  expect(() => parseControlConfig({ MOTE_SECRET_KEY: 'x'.repeat(32), MOTE_DATABASE_BACKEND: 'neon' })).toThrow(
    'MOTE_PAGESERVER_URL',
  ))

it('a database is created as a tenant with a timeline, branched at a snapshot, restored, and deleted', {
  timeout: 120_000,
}, async () => {
  server.failNext('PUT', 503)
  const { id, storage_tenant_id: tenantId } = (await user.post('/v1/databases', { name: 'n', engine: 'postgres' })).body
  await running(id)
  const first = (await database(id)).storage_timeline_id
  const tenant = server.tenants.get(tenantId)
  expect(tenant?.generation).toBe(1)
  expect(tenant?.timelines.get(first)).toMatchObject({ ancestor: undefined, version: 15 })

  await user.post(`/v1/databases/${id}/backups/snapshots`, { name: 'one' })
  await until(async () => (await user.get(`/v1/databases/${id}/backups/snapshots`)).body[0].status === 'ready', {
    everyMs: 50,
    timeoutMs: 60_000,
    what: 'the log position is known',
  })
  await user.post(`/v1/databases/${id}/branches`, { name: 'trial', from_snapshot: 'one' })
  const branch = async () =>
    (await user.get(`/v1/databases/${id}/branches`)).body.find(
      (one: { branch_name: string }) => one.branch_name === 'trial',
    )
  await until(async () => (await branch()).status === 'ready', {
    everyMs: 50,
    timeoutMs: 90_000,
    what: 'the branch is ready',
  })
  const trial = (await branch()).storage_timeline_id
  expect(tenant?.timelines.get(trial)).toMatchObject({ ancestor: first, ancestorLsn: '0/169AD58' })

  await user.post(`/v1/databases/${id}/backups/restore`, { snapshot_name: 'one' })
  await until(async () => (await database(id)).storage_timeline_id !== first, {
    everyMs: 50,
    timeoutMs: 90_000,
    what: 'the branch has another timeline',
  })
  await running(id)
  const second = (await database(id)).storage_timeline_id
  expect(tenant?.timelines.get(second)).toMatchObject({ ancestor: first, ancestorLsn: '0/169AD58' })
  const backups = async () => (await user.get(`/v1/databases/${id}/backups`)).body
  expect(await backups()).toMatchObject({ retention_valid: true, status: 'ready', size_bytes: 22_953_984, error: null })
  const kept = tenant?.timelines.get(second)
  tenant?.timelines.delete(second)
  expect(await backups(), 'the page server lost the branch').toMatchObject({
    retention_valid: false,
    status: 'failed',
    error: 'The page server does not have the branch.',
  })
  if (kept) tenant?.timelines.set(second, kept)
  server.failNext('GET', 503)
  expect(await backups()).toMatchObject({ retention_valid: false, error: 'The page server does not answer.' })
  expect(await backups()).toMatchObject({ retention_valid: true })

  await user.delete(`/v1/databases/${id}`)
  await until(async () => (await user.get('/v1/databases')).body.length === 0, {
    everyMs: 50,
    timeoutMs: 90_000,
    what: 'the database is deleted',
  })
  expect(server.tenants.has(tenantId)).toBe(false)
})

it('tenants are distributed over the page servers, and a tenant never moves to another one', {
  timeout: 120_000,
}, async () => {
  const create = async (name: string) => {
    const { id, storage_tenant_id: tenantId } = (await user.post('/v1/databases', { name, engine: 'postgres' })).body
    await running(id)
    return { id, tenantId }
  }
  const [one, two] = [await create('m1'), await create('m2')]
  expect([...server.tenants.keys()]).toEqual([one.tenantId])
  expect([...secondServer.tenants.keys()]).toEqual([two.tenantId])
  const generation = async ({ id }: { id: string }) => (await database(id)).tenant_gen
  const attached = (tenant: { tenantId: string }, gen: number) => [
    { id: tenant.tenantId, gen, mode: 'AttachedSingle', stripe_size: 2048 },
  ]
  const reAttach = async (body?: object) => (await system.api.post('/re-attach', body)).body.tenants

  // A /re-attach request without a body is for node 1. Each response lists exactly the tenants of the requesting node,
  // whose generations it raises.
  expect(await reAttach()).toEqual(attached(one, 2))
  expect([await generation(one), await generation(two)]).toEqual([2, 1])
  expect(await reAttach({ node_id: 2 })).toEqual(attached(two, 2))
  expect(await reAttach({ node_id: 2 })).toEqual(attached(two, 3))
  expect([await generation(one), await generation(two)]).toEqual([2, 3])
  expect(await reAttach({ node_id: 3 })).toEqual([])
  expect((await system.api.post('/re-attach', { node_id: 4 })).status).toBe(404)

  // A tenant stays on its node when other nodes or tenants change.
  await user.delete(`/v1/databases/${one.id}`)
  await until(async () => server.tenants.size === 0, {
    everyMs: 50,
    timeoutMs: 90_000,
    what: 'the first tenant is deleted',
  })
  expect(await reAttach()).toEqual([])
  expect(await reAttach({ node_id: 2 })).toEqual(attached(two, 4))
  const { tenantId } = await create('m3')
  expect([...server.tenants.keys()]).toEqual([tenantId])
})

it('eight concurrent re-attach requests get eight different generations, and only the newest one is valid', async () => {
  const answers = await Promise.all(Array.from({ length: 8 }, () => system.api.post('/re-attach', { node_id: 2 })))
  const tenants = answers.map(({ body }) => body.tenants[0])
  const gens: number[] = tenants.map(({ gen }) => gen).toSorted((a, b) => a - b)
  expect(new Set(gens).size).toBe(8)
  const [{ id }, newest = 0] = [tenants[0], gens.at(-1)]
  const asked = [
    { id, gen: newest },
    { id, gen: newest - 1 },
    { id, gen: newest + 1 },
    { id: '0'.repeat(32), gen: 1 },
    { id: `${id}-0001`, gen: newest },
  ]
  const { body } = await system.api.post('/validate', { tenants: asked })
  expect(body.tenants.map((one: { valid: boolean }) => one.valid)).toEqual([true, false, false, false, true])
})

it("a timeline that already exists counts as created, and the page server's refusals are reported", async () => {
  const client = pageserver(server.url)
  const { signal } = new AbortController()
  const [tenantId, timelineId] = ['a'.repeat(32), 'b'.repeat(32)]
  await client.attach(tenantId, 3, signal)
  const desired = { timelineId, version: 15 }
  expect((await client.createTimeline(tenantId, desired, signal)).timeline_id).toBe(timelineId)
  expect((await client.createTimeline(tenantId, desired, signal)).timeline_id).toBe(timelineId)
  await expect(client.attach(tenantId, 2, signal)).rejects.toThrow('409')
  await client.createTimeline(tenantId, { timelineId: 'c'.repeat(32), version: 15, ancestor: { timelineId } }, signal)
  await expect(client.deleteTimeline(tenantId, timelineId, signal)).rejects.toMatchObject({ status: 412 })
  expect(await client.lsnAt(tenantId, timelineId, '2026-01-01T00:00:00Z', signal)).toBe('0/1500000')
  expect(await client.timeline(tenantId, 'd'.repeat(32), signal)).toBeUndefined()
})

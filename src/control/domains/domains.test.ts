/**
 * Tests custom domains through the API, with verification at a real name server and requests through a real gateway.
 */
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { viaGateway } from '../../../test/support/http.ts'
import { testSystem, type TestSystem, type TestUser } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'
import { startTestDns, type TestDns } from '../../../test/support/control/domains.ts'

let dns: TestDns
let system: TestSystem
let owner: TestUser
let other: TestUser
const path = '/v1/apps/hello/domains'

beforeAll(async () => {
  dns = await startTestDns()
  system = await testSystem({ config: { dnsServers: [dns.server] } })
  ;[owner, other] = [await system.user(), await system.user()]
  for (const user of [owner, other]) {
    await user.post('/v1/apps', { name: 'hello', git_url: '' })
    await user.post('/v1/apps/hello/deploy', { image: 'example/app:1' })
  }
  const { hostname } = (await owner.get('/v1/apps/hello')).body
  await until(async () => (await viaGateway(system.gateway.port, hostname)).status === 200, {
    what: 'the app answers',
  })
})
afterAll(async () => {
  await system[Symbol.asyncDispose]()
  await dns[Symbol.asyncDispose]()
})
beforeEach(() => {
  dns.broken = false
})

const ask = async (host: string) => (await viaGateway(system.gateway.port, host)).status
const routed = (host: string, status: number) =>
  until(async () => (await ask(host)) === status, { what: `${host} answers ${status}` })
/** Adds a domain, sets its TXT record and requests its verification. */
async function prove(user: TestUser, name: string) {
  const added = (await user.post(path, { name })).body
  const [record] = added.records
  dns.txt.set(record.name, [record.value])
  return { record, verified: await user.post(`${path}/${name}/verify`) }
}
const makeDue = {
  name: 'test.look',
  text: `UPDATE domain SET next_check_at = now() WHERE name = $1 AND state = 'verified'`,
}
const poke = {
  name: 'test.poke',
  text: `UPDATE sweep_run SET pokes = pokes + 1 WHERE name = 'domains' RETURNING pg_notify('sweep', 'domains')`,
}
/** Runs the next DNS check of a verified domain now. */
async function recheck(name: string): Promise<void> {
  const user = name
  await system.database.db.run(makeDue, [user])
  await system.database.db.rows(poke)
}

it('a domain is routed from the verification of its TXT record until its deletion', async () => {
  const added = await owner.post(path, { name: 'Shop.Example.com' })
  expect(added.body).toMatchObject({ name: 'shop.example.com', status: 'pending', verified_at: null })
  expect(added.body.records.map((one: { type: string }) => one.type)).toEqual(['TXT', 'CNAME'])
  expect((await owner.post(`${path}/shop.example.com/verify`)).body).toMatchObject({
    status: 'pending',
    message: 'There is no TXT record at _mote-challenge.shop.example.com yet.',
  })
  expect(await ask('shop.example.com')).toBe(404)
  const [{ name, value }] = added.body.records
  dns.txt.set(name, ['v=spf1 -all', 'something else'])
  expect((await owner.post(`${path}/shop.example.com/verify`)).body.message).toContain('has another value')
  dns.txt.set(name, ['v=spf1 -all', value])
  expect((await owner.post(`${path}/shop.example.com/verify`)).body).toMatchObject({
    status: 'verified',
    message: null,
  })
  await routed('shop.example.com', 200)
  expect((await owner.get(path)).body).toMatchObject([{ name: 'shop.example.com', status: 'verified' }])
  expect((await owner.delete(`${path}/shop.example.com`)).status).toBe(200)
  await routed('shop.example.com', 404)
  const { hostname } = (await owner.get('/v1/apps/hello')).body
  expect(await ask(hostname)).toBe(200)
})

it('a domain is verified in the background, without a further request', async () => {
  const { body } = await owner.post(path, { name: 'auto.example.com' })
  dns.txt.set(body.records[0].name, [body.records[0].value])
  const due = { name: 'test.due', text: `UPDATE domain SET next_check_at = now() WHERE name = 'auto.example.com'` }
  await system.database.db.run(due)
  await system.database.db.rows(poke)
  await routed('auto.example.com', 200)
})

it("a domain belongs to one app at a time, and changes to another app when only that app's TXT record is left", async () => {
  const mine = await prove(owner, 'taken.example.com')
  expect(mine.verified.body.status).toBe('verified')
  const theirs = await other.post(path, { name: 'taken.example.com' })
  expect(theirs.body.records[0].value).not.toBe(mine.record.value)
  expect((await other.post(`${path}/taken.example.com/verify`)).body.status).toBe('pending')
  // If both apps' TXT records exist, the current app keeps the domain.
  dns.txt.set(mine.record.name, [mine.record.value, theirs.body.records[0].value])
  const refused = (await other.post(`${path}/taken.example.com/verify`)).body
  expect(refused).toMatchObject({ status: 'pending', message: expect.stringContaining('in use by another app') })
  // If only the other app's TXT record exists, the current app loses the domain at the third DNS check.
  dns.txt.set(mine.record.name, [theirs.body.records[0].value])
  const status = async () =>
    (await owner.get(path)).body.find((one: { name: string }) => one.name === 'taken.example.com').status
  await until(
    async () => {
      await recheck('taken.example.com')
      return (await status()) === 'lost'
    },
    { timeoutMs: 10_000, everyMs: 50, what: 'the first app has lost it' },
  )
  const reported = async (user: TestUser) => {
    const { body } = await user.get('/v1/notifications')
    return JSON.stringify(body).match(/taken\.example\.com is no longer routed to hello/g)?.length ?? 0
  }
  expect([await reported(owner), await reported(other)]).toEqual([1, 0])
  expect((await other.post(`${path}/taken.example.com/verify`)).body.status).toBe('verified')
  const route = {
    name: 'test.route',
    text: `SELECT r.project_id AS "projectId" FROM route r WHERE r.hostname = 'taken.example.com'`,
  }
  expect(await system.database.db.one(route)).toEqual({ projectId: theirs.body && (await projectOf(other)) })
  await routed('taken.example.com', 200)
})

it('a domain stays verified while name servers do not respond', async () => {
  await prove(owner, 'steady.example.com')
  await routed('steady.example.com', 200)
  dns.broken = true
  expect((await owner.post(`${path}/steady.example.com/verify`)).body).toMatchObject({
    status: 'verified',
    message: expect.stringContaining('did not answer'),
  })
  expect(await ask('steady.example.com')).toBe(200)
})

it('a domain is not visible to other projects, and reserved names are refused', async () => {
  await prove(owner, 'private.example.com')
  expect((await other.post(`${path}/private.example.com/verify`)).status).toBe(404)
  expect((await other.delete(`${path}/private.example.com`)).status).toBe(404)
  expect((await owner.post(path, { name: 'private.example.com' })).status).toBe(409)
  expect((await owner.post(path, { name: 'evil.localhost' })).body.details[0].field).toBe('name')
  await system.database.db.run({ name: 'test.free', text: `UPDATE project SET plan = 'free' WHERE id = $1` }, [
    await projectOf(other),
  ])
  expect((await other.post(path, { name: 'free.example.com' })).body).toMatchObject({ limit: 'custom_domains' })
})

it('deleting an app deletes its domains', async () => {
  await owner.post('/v1/apps', { name: 'short', git_url: '' })
  const added = (await owner.post('/v1/apps/short/domains', { name: 'short.example.com' })).body
  dns.txt.set(added.records[0].name, [added.records[0].value])
  await owner.post('/v1/apps/short/domains/short.example.com/verify')
  await routed('short.example.com', 503)
  await owner.delete('/v1/apps/short')
  await routed('short.example.com', 404)
})

async function projectOf(user: TestUser): Promise<string> {
  const projects = await user.get('/v1/projects')
  return projects.body[0].id
}

import { afterAll, beforeAll, expect, it } from 'vitest'
import { type TestSystem, type TestUser, testSystem } from '../../../test/support/system.ts'

let system: TestSystem
let user: TestUser
beforeAll(async () => {
  system = await testSystem({ agents: 0 })
  user = await system.user()
  await user.post('/v1/apps', { name: 'shop', git_url: '' })
  await user.post('/v1/apps', { name: 'mails', git_url: '', kind: 'worker' })
})
afterAll(async () => system[Symbol.asyncDispose]())

const canaryOf = async () => (await user.get('/v1/apps/shop')).body.canary
const change = (canary: unknown, app = 'shop') => user.call('PATCH', `/v1/apps/${app}`, { port: 8080, canary })

it('canary settings get defaults, do not change with other settings, are listed, and are removed by a share of 0', async () => {
  expect(await canaryOf()).toBeNull()
  const set = { percent: 10, seconds: 300, max_error_percent: 5, min_requests: 20 }
  expect((await change({ percent: 10 })).body.canary).toEqual(set)
  await user.call('PATCH', '/v1/apps/shop', { port: 9000 })
  await change(null)
  const app = (await user.get('/v1/apps/shop')).body
  expect(app.canary).toEqual(set)
  expect((await user.get('/v1/apps')).body).toContainEqual(app)
  expect((await change({ percent: 0 })).body.canary).toBeNull()
})

it.each([
  ['a share of all requests', { percent: 100 }],
  ['a share between 0 and 1 percent', { percent: 0.5 }],
  ['less than 10 seconds', { percent: 5, seconds: 9 }],
  ['no share', { seconds: 60 }],
])('a canary with %s is refused', async (_what, canary) => {
  const { status, body } = await change(canary)
  expect([status, body.code]).toEqual([400, 'invalid_request'])
  expect(body.details[0].field).toMatch(/^canary/)
})

it('a worker cannot have a canary', async () => {
  expect(await change({ percent: 10 }, 'mails')).toMatchObject({ status: 400 })
  const made = { name: 'more', git_url: '', kind: 'worker', canary: { percent: 10 } }
  expect(await user.post('/v1/apps', made)).toMatchObject({ status: 400 })
})

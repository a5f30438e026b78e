import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestSystem, type TestUser, testSystem } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'

let system: TestSystem
let user: TestUser
beforeAll(async () => {
  system = await testSystem({ agents: 0 })
  await system.addAgent({ fake: { imageMs: 0, bootMs: 5, healthyMs: 0, stopMs: 0, logEveryMs: 0 } })
  user = await system.user()
  await user.post('/v1/apps', { name: 'shop', git_url: '', command: ['node', 'server.js'] })
  await user.call('PUT', '/v1/apps/shop/env/LEVEL', { value: 'debug' })
})
afterAll(async () => system[Symbol.asyncDispose]())

const worker = { name: 'shop-mails', git_url: '', kind: 'worker', env_of: 'shop', command: ['node', 'mails.js'] }
const deploy = async (app: string) => {
  const { job_id: job } = (await user.post(`/v1/apps/${app}/deploy`, { image: 'oci:hello' })).body
  await until(async () => (await user.get(`/v1/apps/${app}/deployments/${job}`)).body.status === 'running', {
    what: `${app} to run`,
  })
}
const desired = (app: string) =>
  system.database.db.rows<{ command: string[]; name: string }>({
    name: `test.${app}`,
    text: `SELECT d.command, e.name FROM deployment d JOIN app a ON a.id = d.app_id
           LEFT JOIN deployment_env e ON e.deployment_id = d.id WHERE a.name = '${app}'`,
  })

describe('a worker', () => {
  it('is created with a command and the environment of another app', async () => {
    const { status, body } = await user.post('/v1/apps', worker)
    expect([status, body]).toEqual([
      200,
      expect.objectContaining({ kind: 'worker', env_of: 'shop', command: worker.command, hostname: null }),
    ])
    expect((await user.get('/v1/apps')).body).toContainEqual(body)
  })

  it.each([
    ['an app that does not exist', { ...worker, name: 'a', env_of: 'none' }, 400],
    ['another worker', { ...worker, name: 'a', env_of: 'shop-mails' }, 400],
    ['an app, being a web app', { ...worker, name: 'a', kind: 'web' }, 400],
  ])('cannot get its environment from %s', async (_what, body, status) => {
    expect(await user.post('/v1/apps', body)).toMatchObject({ status, body: { details: [{ field: 'env_of' }] } })
    expect((await user.get('/v1/apps/a')).status).toBe(404)
  })

  it('is refused with an empty program or with a scale of zero', async () => {
    expect((await user.post('/v1/apps', { ...worker, name: 'a', command: [''] })).body.details).toMatchObject([
      { field: 'command' },
    ])
    expect((await user.call('PATCH', '/v1/apps/shop-mails/scale', { min_replicas: 0 })).body.details).toMatchObject([
      { field: 'min_replicas' },
    ])
  })

  it('cannot have domains or variables of its own', async () => {
    expect((await user.post('/v1/apps/shop-mails/domains', { name: 'www.example.com' })).status).toBe(409)
    expect((await user.call('PUT', '/v1/apps/shop-mails/env/A', { value: '1' })).status).toBe(409)
  })

  it('runs with its own command and the environment of the other app, and gets no route', async () => {
    await deploy('shop')
    await deploy('shop-mails')
    expect(await desired('shop-mails')).toEqual([{ command: ['node', 'mails.js'], name: 'LEVEL' }])
    expect(await desired('shop')).toEqual([{ command: ['node', 'server.js'], name: 'LEVEL' }])
    const routes = await system.database.db.rows<{ hostname: string }>({
      name: 'test.routes',
      text: 'SELECT hostname FROM route',
    })
    expect(routes.map(({ hostname }) => hostname.split('-')[0])).toEqual(['shop'])
  })

  it('keeps the command of its deployment when the command of the app is changed', async () => {
    const before = (await user.get('/v1/apps/shop')).body
    const { body } = await user.call('PATCH', '/v1/apps/shop', { port: before.port, command: [] })
    expect(body.command).toEqual([])
    expect(body.settings_changed_at).not.toBe(before.settings_changed_at)
    expect((await desired('shop'))[0]?.command).toEqual(['node', 'server.js'])
  })

  it('is deleted together with the app whose environment it has', async () => {
    await user.call('DELETE', '/v1/apps/shop')
    await until(async () => (await user.get('/v1/apps')).body.length === 0, { what: 'no apps' })
    expect((await user.get('/v1/apps/shop-mails')).status).toBe(404)
  })
})

it("`arguments` replace the image's arguments but not its entrypoint, and a deployment keeps its arguments when the app changes", async () => {
  const body = { name: 'args', git_url: '', kind: 'worker', arguments: ['--flag', 'two\nlines'], stack: 'shop' }
  const made = await user.post('/v1/apps', body)
  expect(made.body).toMatchObject({ arguments: body.arguments, command: [], stack: 'shop', settings_changed_at: null })
  await user.post('/v1/apps/args/deploy', { image: 'oci:hello' })
  const changed = await user.call('PATCH', '/v1/apps/args', { port: made.body.port, arguments: [] })
  expect(changed.body).toMatchObject({ arguments: [], settings_changed_at: expect.any(String) })
  const rows = await system.database.db.rows<{ arguments: string[] }>({
    name: 'test.arguments',
    text: `SELECT d.arguments FROM deployment d JOIN app a ON a.id = d.app_id WHERE a.name = 'args'`,
  })
  expect(rows).toEqual([{ arguments: body.arguments }])
})

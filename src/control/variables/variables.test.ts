/** Tests environment groups, the precedence of variables, and the restoring of earlier versions of variables. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { statement } from '../../db/db.ts'
import { createVault } from '../../lib/vault.ts'
import { type TestSystem, type TestUser, testSystem } from '../../../test/support/system.ts'

/** A vault with the same secret as the control plane of `testSystem`, so that the test can decrypt values. */
const vault = createVault(['test-'.repeat(8)])
let system: TestSystem
let user: TestUser
beforeAll(async () => {
  system = await testSystem({ agents: 0 })
  await system.addAgent({ fake: { imageMs: 0, bootMs: 5, healthyMs: 0, stopMs: 0, logEveryMs: 0 } })
  user = await system.user()
  for (const name of ['web', 'other']) await user.post('/v1/apps', { name, git_url: '', drain_timeout: 0 })
})
afterAll(async () => system[Symbol.asyncDispose]())

const put = (path: string, value: string, secret = true) => user.call('PUT', path, { value, secret })
const attach = (app: string, groups: readonly string[]) => user.call('PUT', `/v1/apps/${app}/env-groups`, { groups })
const changedAt = async (app: string) => Date.parse((await user.get(`/v1/apps/${app}`)).body.settings_changed_at)
const deployedEnv = statement<{ name: string; value: Buffer }>(
  'test.deployed',
  `SELECT name, value FROM deployment_env WHERE deployment_id = $1 ORDER BY name`,
)
/** Creates a deployment and returns the variables that it has. */
const deployed = async (app: string) => {
  const { body } = await user.post(`/v1/apps/${app}/deploy`, { image: 'oci:hello' })
  const rows = await system.database.db.rows(deployedEnv, [body.deployment_id])
  return Object.fromEntries(rows.map(({ name, value }) => [name, vault.open('app.env', value)]))
}

describe('environment groups', () => {
  it("have an order: if a name occurs several times, the app's own variable wins, then the group that was attached last", async () => {
    for (const name of ['base', 'team']) expect((await user.post('/v1/env-groups', { name })).status).toBe(200)
    await put('/v1/env-groups/base/env/A', 'base')
    await put('/v1/env-groups/base/env/B', 'base')
    await put('/v1/env-groups/base/env/C', 'base')
    await put('/v1/env-groups/team/env/B', 'team', false)
    await put('/v1/env-groups/team/env/C', 'team')
    await put('/v1/apps/web/env/C', 'own')
    expect((await attach('web', ['base', 'team'])).body).toEqual({ status: 'set' })
    expect(await deployed('web')).toEqual({ A: 'base', B: 'team', C: 'own' })
    await attach('web', ['team', 'base'])
    expect(await deployed('web')).toEqual({ A: 'base', B: 'base', C: 'own' })
    expect((await user.get('/v1/apps/web/env-groups')).body).toEqual([
      { name: 'team', position: 1 },
      { name: 'base', position: 2 },
    ])
    expect((await user.get('/v1/env-groups/base')).body).toMatchObject({ variables: 3, apps: ['web'] })
  })

  it("also apply to workers that use the app's variables", async () => {
    await user.post('/v1/apps', { name: 'web-mails', git_url: '', kind: 'worker', env_of: 'web' })
    expect(await deployed('web-mails')).toEqual({ A: 'base', B: 'base', C: 'own' })
    expect((await attach('web-mails', ['base'])).status).toBe(409)
  })

  it('show the values of plain variables, but not of secrets', async () => {
    expect((await user.get('/v1/env-groups/team/env')).body).toMatchObject([
      { name: 'B', secret: false, value: 'team' },
      { name: 'C', secret: true, value: null },
    ])
  })

  it('mark the apps that they are attached to as changed, and no other app', async () => {
    const [web, other] = [await changedAt('web'), await changedAt('other')]
    await put('/v1/env-groups/base/env/D', 'base')
    expect(await changedAt('web')).toBeGreaterThan(web)
    expect(await changedAt('other')).toEqual(other)
    expect(await deployed('web')).toMatchObject({ D: 'base' })
  })

  it('count toward the size limit of each app', async () => {
    const large = 'x'.repeat(32_000)
    await put('/v1/apps/web/env/LARGE', large)
    expect((await put('/v1/env-groups/base/env/LARGER', large)).status).toBe(200)
    expect(await put('/v1/env-groups/team/env/LARGEST', large)).toMatchObject({
      status: 400,
      body: { error: expect.stringContaining('the variables of web can have at most 65536 bytes') },
    })
    await user.call('DELETE', '/v1/env-groups/base/env/LARGER')
    await user.call('DELETE', '/v1/apps/web/env/LARGE')
  })

  it('cannot be attached if they do not exist or are named twice, and cannot be deleted while they are attached', async () => {
    expect(await attach('web', ['none'])).toMatchObject({ status: 400, body: { details: [{ field: 'groups' }] } })
    expect(await attach('web', ['base', 'base'])).toMatchObject({
      status: 400,
      body: { details: [{ field: 'groups' }] },
    })
    expect(await user.call('DELETE', '/v1/env-groups/base')).toMatchObject({
      status: 409,
      body: { error: expect.stringContaining('is attached to web') },
    })
    await attach('web', [])
    expect((await user.call('DELETE', '/v1/env-groups/base')).status).toBe(200)
    expect(await deployed('web')).toEqual({ C: 'own' })
  })
})

describe('versions of variables', () => {
  const versions = async (of: string) => (await user.get(of)).body

  it('are listed with the names of the changed variables and the author, but without values', async () => {
    await put('/v1/apps/other/env/A', 'first value')
    await put('/v1/apps/other/env/A', 'second value')
    await put('/v1/apps/other/env/B', 'plain value', false)
    await user.call('DELETE', '/v1/apps/other/env/A')
    const listed = await versions('/v1/apps/other/env-versions')
    expect(listed).toMatchObject([
      { version: 4, set: [], removed: ['A'], restored: null },
      { version: 3, set: ['B'], removed: [] },
      { version: 2, set: ['A'], removed: [] },
      { version: 1, set: ['A'], removed: [] },
    ])
    const authors = new Set(listed.map(({ author }: { author: string | null }) => author))
    expect([...authors]).toEqual([expect.stringMatching(/./)])
    expect(JSON.stringify(listed)).not.toContain('value')
    expect(await versions('/v1/apps/other/env-versions/3')).toEqual(listed[1])
  })

  it('can be restored as a new version, which does not change existing deployments', async () => {
    const before = await deployed('other')
    const changed = await changedAt('other')
    expect((await user.post('/v1/apps/other/env-versions/1/restore')).body).toEqual({ status: 'restored' })
    expect(await changedAt('other')).toBeGreaterThan(changed)
    expect(before).toEqual({ B: 'plain value' })
    expect(await deployed('other')).toEqual({ A: 'first value' })
    expect((await versions('/v1/apps/other/env-versions'))[0]).toMatchObject({
      version: 5,
      set: ['A'],
      removed: ['B'],
      restored: 1,
    })
    await user.post('/v1/apps/other/env-versions/3/restore')
    expect((await user.get('/v1/apps/other/env')).body).toMatchObject([
      { name: 'A', secret: true },
      { name: 'B', secret: false, value: 'plain value' },
    ])
    expect(await deployed('other')).toEqual({ A: 'second value', B: 'plain value' })
    expect((await user.post('/v1/apps/other/env-versions/99/restore')).status).toBe(404)
    expect((await user.post('/v1/apps/other/env-versions/x/restore')).status).toBe(404)
  })

  it('have a first version with the variables that existed before versions were recorded', async () => {
    await user.post('/v1/apps', { name: 'old', git_url: '' })
    await put('/v1/apps/old/env/A', 'old value')
    await system.database.db.rows({
      name: 'test.forget',
      text: `DELETE FROM env_version WHERE set_names = '{A}' AND app_id = (SELECT id FROM app WHERE name = 'old')`,
    })
    await put('/v1/apps/old/env/A', 'new value')
    expect(await versions('/v1/apps/old/env-versions')).toMatchObject([
      { version: 2, set: ['A'] },
      { version: 1, set: ['A'], author: null },
    ])
    await user.post('/v1/apps/old/env-versions/1/restore')
    expect(await deployed('old')).toEqual({ A: 'old value' })
  })

  it("of a group can be restored, which also marks the group's apps as changed", async () => {
    await attach('other', ['team'])
    await put('/v1/env-groups/team/env/E', 'one')
    const [{ version }] = await versions('/v1/env-groups/team/versions')
    await put('/v1/env-groups/team/env/E', 'two')
    const changed = await changedAt('other')
    await user.post(`/v1/env-groups/team/versions/${version}/restore`)
    expect(await changedAt('other')).toBeGreaterThan(changed)
    expect(await deployed('other')).toMatchObject({ E: 'one' })
  })

  it('are deleted except for the newest 50', async () => {
    for (let n = 0; n < 52; n++) await put('/v1/env-groups/team/env/N', String(n))
    const listed = await versions('/v1/env-groups/team/versions?limit=100')
    expect(listed).toHaveLength(50)
    const values = await system.database.db.rows<{ count: number }>({
      name: 'test.values',
      text: `SELECT count(DISTINCT version_id)::int AS count FROM env_version_value v JOIN env_version e ON e.id = v.version_id WHERE e.group_id IS NOT NULL`,
    })
    expect(values[0]?.count).toBe(50)
  })
})

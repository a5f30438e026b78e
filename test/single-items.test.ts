/**
 * Every resource can be read individually, with the same representation as in its list, and resources that change can
 * be waited for.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { allOperations } from '../src/control/operations.ts'
import { type TestSystem, type TestUser, testSystem } from './support/system.ts'

const readable = new Set(Object.values(allOperations).flatMap(({ method, path }) => (method === 'GET' ? [path] : [])))

/** Paths without a GET operation, and why. */
const unreadable: Readonly<Record<string, string>> = {
  '/v1/apps/{app_name}/volumes/{volume_id}/detach': 'a verb',
}

it('every resource that can be changed or deleted can also be read', () => {
  const named = Object.values(allOperations).filter(
    ({ method, path }) => ['PATCH', 'PUT', 'DELETE'].includes(method) && path.endsWith('}'),
  )
  expect(named.map(({ path }) => path).filter(path => !readable.has(path) && !(path in unreadable))).toEqual([])
})

/** Lists whose items are read at another path, or cannot be read individually, and why. */
const elsewhere: Readonly<Record<string, string>> = {
  listProjects: '/v1/projects/{tenant_slug}',
  listApps: '/v1/apps/{app_name}',
  listDeployments: '/v1/apps/{app_name}/deployments/{job_id}',
  listActiveDeployments: '/v1/apps/{app_name}/deployments/{job_id}',
  listVolumeSnapshots: '/v1/snapshots/{snapshot_id}',
  listDatabases: '/v1/databases/{id}',
  listHosts: '/v1/admin/hosts/{host_id}',
  listHostLabels: 'a label has nothing but its name and values',
  listRepositories: 'belongs to the source host',
  listScmAccounts: 'belongs to the source host',
  listAppEnvGroups: '/v1/env-groups/{group_name}',
  listAppFiles: '/v1/apps/{app_name}/files/content',
  listAuditLogs: 'an entry is only useful in sequence',
}

it('the items of every list can be read', () => {
  const lists = Object.entries(allOperations).filter(([, { list }]) => list)
  expect(lists.filter(([id, { items }]) => !items && !(id in elsewhere)).map(([id]) => id)).toEqual([])
  for (const place of Object.values(elsewhere)) if (place.startsWith('/')) expect(readable).toContain(place)
})

describe('on a running system', () => {
  let system: TestSystem
  let user: TestUser
  beforeAll(async () => {
    system = await testSystem()
    user = await system.user()
    await user.post('/v1/apps', { name: 'web', git_url: '' })
    await user.call('PUT', '/v1/apps/web/env/LEVEL', { value: 'debug' })
    await user.post('/v1/apps/web/domains', { name: 'www.example.com' })
    for (const port of [80, 81])
      await user.post('/v1/apps/web/security-groups', {
        protocol: 'tcp',
        port_start: port,
        port_end: port,
        action: 'allow',
      })
    for (const name of ['one', 'two']) {
      await user.post('/v1/auth/tokens', { name })
      await user.post('/v1/volumes', { name, size_mib: 32 })
    }
    await user.post(`/v1/projects/${user.project}/members`, { email: 'guest@example.com', role: 'viewer' })
  })
  afterAll(async () => system[Symbol.asyncDispose]())

  it.each([
    ['/v1/auth/tokens', 'id', undefined],
    ['/v1/auth/sessions', 'id', undefined],
    ['/v1/apps/web/env', 'name', undefined],
    ['/v1/apps/web/domains', 'name', undefined],
    ['/v1/apps/web/security-groups', 'id', undefined],
    ['/v1/volumes', 'id', undefined],
    ['/v1/notifications', 'id', 'notifications'],
    ['members', 'user_id', 'members'],
    ['members', 'id', 'invitations'],
  ])('an item of %s is returned as in the list, and is 404 for another tenant', async (path, by, within) => {
    const list = path === 'members' ? `/v1/projects/${user.project}/members` : path
    const { body } = await user.get(list)
    const items: Record<string, string>[] = within ? body[within] : body
    expect(items.length).toBeGreaterThan(0)
    const single = list.replace(/members$/, within === 'invitations' ? 'invitations' : 'members')
    const stranger = await system.user()
    for (const item of items) {
      expect((await user.get(`${single}/${item[by]}`)).body).toEqual(item)
      expect((await stranger.get(`${single}/${item[by]}`)).status).toBe(404)
    }
    expect((await user.get(`${single}/nothing`)).status).toBe(404)
  })

  it('a request with ?wait= is answered once the deployment has the requested status', async () => {
    const { job_id } = (await user.post('/v1/apps/web/deploy', { image: 'example/app:1' })).body
    const at = `/v1/apps/web/deployments/${job_id}`
    expect((await user.get(`${at}?wait=running&timeout=20`)).body.status).toBe('running')
    await user.delete(at)
    expect((await user.get(`${at}?wait=stopped,failed&timeout=20`)).body.status).toBe('stopped')
    const began = performance.now()
    expect((await user.get(`${at}?wait=running&timeout=1`)).body.status, 'after the timeout').toBe('stopped')
    expect(performance.now() - began).toBeGreaterThan(900)
    expect((await user.get(`${at}?wait=running&timeout=61`)).status).toBe(400)
    expect((await user.get(`${at}?wait=runing`)).body.error).toMatch(/^wait must have states/)
  })

  it('a request with ?wait= is answered at once if the deployment can no longer get the requested status', async () => {
    await user.call('PUT', '/v1/apps/web/env/MOTE_FAKE', { value: 'crash' })
    const { job_id } = (await user.post('/v1/apps/web/deploy', { image: 'example/app:1' })).body
    const answer = await user.get(`/v1/apps/web/deployments/${job_id}?wait=running&timeout=60`)
    expect(answer.body.status).toBe('failed')
  })
})

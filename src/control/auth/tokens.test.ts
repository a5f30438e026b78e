import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Identity, type Person, startIdentity } from '../../../test/support/identity.ts'
import { statement } from '../../db/db.ts'
import { purposes } from './credentials.ts'

const stored = statement<{ hash: Buffer; last_used_at: Date | null }>(
  'test.pat',
  `SELECT hash, last_used_at FROM pat WHERE id = $1`,
)
const dump = statement<{ text: string }>('test.patDump', `SELECT pat::text AS text FROM pat`)

describe('personal access tokens', () => {
  let api: Identity
  let person: Person
  beforeAll(async () => {
    api = await startIdentity()
    person = await api.person()
  })
  afterAll(async () => api[Symbol.asyncDispose]())

  const create = (body: object, token = person.token) => api.call('POST', '/v1/auth/tokens', { token, body })

  it('are returned once, and stored as a keyed hash', async () => {
    const { body } = await create({ name: 'deploy from CI' })
    const token = String(body['token'])
    expect(token).toMatch(/^svc_pat_[A-Za-z0-9_-]{43}$/)
    expect(body['token_last_four']).toBe(token.slice(-4))
    const list = await api.call('GET', '/v1/auth/tokens', { token: person.token })
    expect(list.body[0]).toMatchObject({
      id: body['id'],
      user_id: person.id,
      name: 'deploy from CI',
      last_used_at: null,
    })
    expect(JSON.stringify(list.body)).not.toContain(token)
    expect((await api.deps.db.rows(dump)).some(row => row.text.includes(token.slice(8, 24)))).toBe(false)
    const row = await api.deps.db.one(stored, [body['id']])
    expect(row.hash.equals(api.deps.vault.hash(purposes.pat, token))).toBe(true)
  })

  it('authenticate like a session until they are revoked or expire', async () => {
    const { body } = await create({ name: 'x' })
    const me = () => api.call('GET', '/v1/auth/me', { token: body['token'] })
    expect((await me()).body['id']).toBe(person.id)
    expect((await api.call('DELETE', `/v1/auth/tokens/${body['id']}`, { token: body['token'] })).status).toBe(200)
    expect((await me()).status).toBe(401)
    expect((await api.call('DELETE', `/v1/auth/tokens/${body['id']}`, { token: person.token })).status).toBe(404)
    const past = await create({ name: 'x', expires_at: '2020-01-01T00:00:00Z' })
    expect(past.status).toBe(400)
  })

  it('cannot be revoked by another user', async () => {
    const { body } = await create({ name: 'mine' })
    const stranger = await api.person()
    for (const id of [body['id'], 'no-uuid']) {
      expect((await api.call('DELETE', `/v1/auth/tokens/${id}`, { token: stranger.token })).status).toBe(404)
    }
    expect((await api.call('GET', '/v1/auth/me', { token: body['token'] })).status).toBe(200)
  })

  it('are limited to their scopes, and cannot create tokens with more scopes', async () => {
    const { body: reader } = await create({ name: 'r', scopes: ['read'] })
    const token = reader['token']
    expect((await api.call('GET', '/v1/projects', { token })).status).toBe(200)
    expect((await api.call('POST', '/v1/projects', { token, body: { name: 'no' } })).status).toBe(403)
    expect((await api.call('POST', '/v1/auth/tokens', { token, body: { name: 'no' } })).status).toBe(403)
    expect((await api.call('POST', '/v1/notifications/read-all', { token })).status).toBe(403)
    const { body: writer } = await create({ name: 'w', scopes: ['write'] })
    expect((await api.call('POST', '/v1/notifications/read-all', { token: writer['token'] })).status).toBe(200)
    expect((await create({ name: 'no', scopes: ['admin'] }, writer['token'])).status).toBe(403)
  })

  it('are limited to the project they are bound to', async () => {
    const other = await api.call('POST', '/v1/projects', { token: person.token, body: { name: 'Side Project' } })
    const slug = other.body['tenant_id']
    const { body } = await create({ name: 'bound', project: slug })
    expect(body['project']).toBe(slug)
    const token = body['token']
    const projects = await api.call('GET', '/v1/projects', { token })
    expect(projects.body.map((p: { tenant_id: string }) => p.tenant_id)).toEqual([slug])
    expect((await api.call('GET', `/v1/projects/${slug}`, { token })).status).toBe(200)
    expect((await api.call('GET', '/v1/audit-logs', { token })).status).toBe(200)
    const all = await api.call('GET', '/v1/projects', { token: person.token })
    const [home] = all.body.filter((p: { tenant_id: string }) => p.tenant_id !== slug)
    expect((await api.call('GET', `/v1/projects/${home.tenant_id}`, { token })).status).toBe(404)
    expect((await api.call('GET', '/v1/audit-logs', { token, headers: { 'x-project': home.id } })).status).toBe(404)
    expect((await api.call('POST', '/v1/projects', { token, body: { name: 'no' } })).status).toBe(403)
    expect((await api.call('DELETE', '/v1/auth/me', { token })).status).toBe(403)
    const child = await create({ name: 'child' }, token)
    expect(child.body['project']).toBe(slug)
    expect((await create({ name: 'child', project: home.tenant_id }, token)).status).toBe(400)
    const observed = await api.call('GET', '/v1/auth/tokens', { token })
    expect(observed.body.map((t: { name: string }) => t.name)).toEqual(['child', 'bound'])
    const foreign = await api.person()
    expect((await create({ name: 'x', project: slug }, foreign.token)).status).toBe(400)
  })

  it('record their last use without a write per request', async () => {
    const { body } = await create({ name: 'busy' })
    await Promise.all(Array.from({ length: 20 }, () => api.call('GET', '/v1/auth/me', { token: body['token'] })))
    expect((await api.deps.db.one(stored, [body['id']])).last_used_at).toBeNull()
    await api.security.stop()
    expect((await api.deps.db.one(stored, [body['id']])).last_used_at).toBeInstanceOf(Date)
  })
})

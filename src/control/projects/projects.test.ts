import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { describeEachPostgres } from '../../../test/support/database.ts'
import { accept, type Identity, type Person, startIdentity } from '../../../test/support/identity.ts'
import { until } from '../../../test/support/wait.ts'
import { type Tx, statement } from '../../db/db.ts'
import { createRunner, readWorkflow } from '../../engine/runner.ts'
import { type ProjectContents, assertWithin, lockProject, planLimits, plans, projectWorkflow } from './index.ts'
import { canManage, nextSlug, slugify, subnetOf } from './rules.ts'

const left = statement<{ n: number }>(
  'test.left',
  `SELECT (SELECT count(*) FROM project WHERE id = $1) + (SELECT count(*) FROM project_member WHERE project_id = $1)
     + (SELECT count(*) FROM notification WHERE project_id = $1) AS n`,
)
const setPlanTo = statement('test.setPlan', `UPDATE project SET plan = $2 WHERE id = $1`)
const addThing = statement('test.addThing', `INSERT INTO thing (project_id) VALUES ($1)`)
const countThings = statement<{ n: number }>(
  'test.countThings',
  `SELECT count(*) AS n FROM thing WHERE project_id = $1`,
)
const dropThing = statement(
  'test.dropThing',
  `DELETE FROM thing WHERE ctid IN (SELECT ctid FROM thing WHERE project_id = $1 LIMIT 1)`,
)

describe('rules for projects', () => {
  it('convert any name to a slug that is a DNS label', () => {
    const cases = { "Jürgen's Shop": 'jurgens-shop', 'a.b_c+d': 'a-b-c-d', 日本: 'project', '--x--': 'x' }
    for (const [name, slug] of Object.entries(cases)) expect(slugify(name)).toBe(slug)
    expect(slugify('x'.repeat(100))).toHaveLength(20)
    expect(slugify('abcdefghijklmnopqrs-tuv')).toBe('abcdefghijklmnopqrs')
    expect(nextSlug('abcdefghijklmnopqrst', Buffer.from('00ff', 'hex'))).toBe('abcdefghijklmno-00ff')
  })

  it("choose a /64 of the installation's IPv6 prefix, but never the first one", () => {
    expect(subnetOf('fdab:102:304::/48', Buffer.from('00000000000005fe', 'hex'))).toBe('fdab:102:304:5ff::/64')
    expect(subnetOf('fdab:102:304::/48', Buffer.alloc(8, 0xff))).toMatch(/^fdab:102:304:[0-9a-f]+::\/64$/)
    expect(subnetOf('2001:db8:0:fff0::/60', Buffer.alloc(8))).toBe('2001:db8:0:fff1::/64')
  })

  it('let admins manage members and viewers, let owners manage all roles, and let others manage none', () => {
    expect(canManage('admin', ['member', 'viewer'])).toBe(true)
    expect(canManage('admin', ['member', 'admin'])).toBe(false)
    expect(canManage('admin', ['owner'])).toBe(false)
    expect(canManage('owner', ['owner', 'admin'])).toBe(true)
    expect(canManage('member', ['viewer'])).toBe(false)
  })

  it("refuse a resource beyond the plan's limit, and name the limit", () => {
    expect(() => assertWithin(plans.free, 'maxApps', 2)).not.toThrow()
    expect(() => assertWithin(plans.free, 'maxApps', 3)).toThrow(
      expect.objectContaining({
        code: 'plan_limit_exceeded',
        status: 403,
        extra: { limit: 'max_apps', used: 3, max: 3 },
      }),
    )
    expect(() => assertWithin(plans.free, 'maxMemoryMibTotal', 2048, 2049)).toThrow()
    expect(() => planLimits('gold')).toThrow('BUG')
  })
})

describeEachPostgres('a project', which => {
  let api: Identity
  beforeAll(async () => {
    api = await startIdentity({ postgres: which })
  })
  afterAll(async () => api[Symbol.asyncDispose]())

  const create = async (person: Person, name: string) =>
    (await api.call('POST', '/v1/projects', { token: person.token, body: { name } })).body
  /** Creates a user, invites the user to the project, and accepts the invitation. */
  async function join(owner: Person, slug: string, role: string): Promise<Person> {
    const person = await api.person()
    const invited = await api.call('POST', `/v1/projects/${slug}/members`, {
      token: owner.token,
      body: { email: person.email, role },
    })
    expect(invited.status).toBe(200)
    const accepted = await accept(api, invited.body, person.token)
    expect(accepted.body['tenant_id']).toBe(slug)
    return person
  }

  it('can be created, listed, read and renamed', async () => {
    const person = await api.person()
    const project = await create(person, 'My Shop')
    expect(project).toMatchObject({ name: 'My Shop' })
    const path = `/v1/projects/${project['tenant_id']}`
    expect((await api.call('GET', path, { token: person.token })).body).toEqual(project)
    const renamed = await api.call('PATCH', path, { token: person.token, body: { name: 'Our Shop' } })
    expect(renamed.body).toMatchObject({ id: project['id'], tenant_id: project['tenant_id'], name: 'Our Shop' })
    const list = await api.call('GET', '/v1/projects', { token: person.token })
    expect(list.body.map((p: { name: string }) => p.name)[0]).toBe('Our Shop')
  })

  it('results in 404 for accounts that are not members, whichever operation they call', async () => {
    const [owner, stranger] = [await api.person(), await api.person()]
    const project = await create(owner, 'Secret')
    const missing = await api.call('GET', '/v1/projects/no-such-project', { token: stranger.token })
    for (const method of ['GET', 'PATCH', 'DELETE'] as const) {
      const reply = await api.call(method, `/v1/projects/${project['tenant_id']}`, {
        token: stranger.token,
        ...(method === 'PATCH' ? { body: { name: 'mine now' } } : {}),
      })
      expect(reply.status).toBe(404)
      expect({ ...reply.body, request_id: '' }).toEqual({ ...missing.body, request_id: '' })
    }
  })

  it('is selected with its slug or id, in a header or a query parameter; a request without either uses the default project', async () => {
    const person = await api.person()
    const project = await create(person, 'Chosen')
    const count = async (query: string, headers = {}) =>
      (await api.call('GET', `/v1/audit-logs?resource_type=project${query}`, { token: person.token, headers })).body[
        'items'
      ][0]?.resource_id
    expect(await count('', { 'x-project': project['tenant_id'] })).toBe(project['id'])
    expect(await count('', { 'x-project': project['id'] })).toBe(project['id'])
    expect(await count(`&project=${project['tenant_id']}`)).toBe(project['id'])
    expect(await count('')).not.toBe(project['id'])
    const unknown = await api.call('GET', '/v1/audit-logs', { token: person.token, headers: { 'x-project': 'nope' } })
    expect(unknown.status).toBe(404)
  })

  it('enforces the permissions of each role', async () => {
    const owner = await api.person()
    const { tenant_id: slug } = await create(owner, 'Team')
    const [admin, member, viewer] = [
      await join(owner, String(slug), 'admin'),
      await join(owner, String(slug), 'member'),
      await join(owner, String(slug), 'viewer'),
    ]
    const path = `/v1/projects/${slug}`
    const statusOf = async (
      person: Person,
      method: 'GET' | 'PATCH' | 'POST' | 'DELETE',
      suffix: string,
      body?: object,
    ) => (await api.call(method, path + suffix, { token: person.token, ...(body ? { body } : {}) })).status
    for (const person of [owner, admin, member, viewer]) expect(await statusOf(person, 'GET', '')).toBe(200)
    for (const [person, status] of [
      [owner, 200],
      [admin, 200],
      [member, 403],
      [viewer, 403],
    ] as const)
      expect(await statusOf(person, 'PATCH', '', { name: 'Team' })).toBe(status)
    for (const person of [admin, member, viewer]) expect(await statusOf(person, 'DELETE', '')).toBe(403)
    const invitation = { email: 'someone@example.com', role: 'viewer' }
    expect(await statusOf(member, 'POST', '/members', invitation)).toBe(403)
    expect(await statusOf(admin, 'POST', '/members', { ...invitation, role: 'admin' })).toBe(403)
    expect(await statusOf(admin, 'POST', '/members', invitation)).toBe(200)
    expect(await statusOf(admin, 'PATCH', `/members/${owner.id}`, { role: 'viewer' })).toBe(403)
    expect(await statusOf(admin, 'PATCH', `/members/${viewer.id}`, { role: 'member' })).toBe(200)
    expect(await statusOf(owner, 'PATCH', `/members/${owner.id}`, { role: 'admin' })).toBe(409)
    expect(await statusOf(owner, 'DELETE', `/members/${owner.id}`)).toBe(409)
    expect(await statusOf(member, 'DELETE', `/members/${viewer.id}`)).toBe(403)
    expect(await statusOf(member, 'DELETE', `/members/${member.id}`)).toBe(200)
    expect(await statusOf(member, 'GET', '')).toBe(404)
    expect(await statusOf(owner, 'DELETE', `/members/${member.id}`)).toBe(404)
  })

  it('keeps one of its two owners if both leave concurrently', async () => {
    const owner = await api.person()
    const { tenant_id: slug } = await create(owner, 'Two Owners')
    const second = await join(owner, String(slug), 'admin')
    const path = `/v1/projects/${slug}/members`
    await api.call('PATCH', `${path}/${second.id}`, { token: owner.token, body: { role: 'owner' } })
    const replies = await Promise.all([
      api.call('DELETE', `${path}/${owner.id}`, { token: owner.token }),
      api.call('DELETE', `${path}/${second.id}`, { token: second.token }),
    ])
    expect(replies.map(r => r.status).sort()).toEqual([200, 409])
  })

  it('never gets more members than its plan allows, even by concurrent invitations', async () => {
    const owner = await api.person()
    const { id, tenant_id: slug } = await create(owner, 'Small Team')
    await api.deps.db.run(setPlanTo, [String(id), 'pro'])
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        api.call('POST', `/v1/projects/${slug}/members`, {
          token: owner.token,
          body: { email: `guest-${i}@example.com`, role: 'member' },
        }),
      ),
    )
    expect(replies.filter(r => r.status === 200)).toHaveLength(plans.pro.maxTeamMembers - 1)
    const refused = replies.find(r => r.status === 403)
    expect(refused?.body).toMatchObject({ code: 'plan_limit_exceeded', limit: 'max_team_members', used: 10, max: 10 })
  })

  it('never exceeds a limit of its plan, even with two hundred concurrent creates', async () => {
    const { db } = api.deps
    await db.run(statement('test.thing', 'CREATE TABLE IF NOT EXISTS thing (project_id uuid)'))
    const owner = await api.person()
    const { id } = await create(owner, 'Limited')
    const projectId = String(id)
    await db.run(setPlanTo, [projectId, 'free'])
    const createThing = () =>
      db.tx(async (tx: Tx) => {
        const limits = await lockProject(tx, projectId)
        assertWithin(limits, 'maxApps', (await tx.one(countThings, [projectId])).n)
        await tx.run(addThing, [projectId])
      })
    const results = await Promise.allSettled(Array.from({ length: 200 }, createThing))
    expect(results.filter(r => r.status === 'fulfilled')).toHaveLength(plans.free.maxApps)
    expect((await db.one(countThings, [projectId])).n).toBe(plans.free.maxApps)
  })

  it('is inaccessible as soon as a request deletes it; its row is removed after its resources', async () => {
    const { db, log } = api.deps
    await db.run(statement('test.thing', 'CREATE TABLE IF NOT EXISTS thing (project_id uuid)'))
    const owner = await api.person()
    const project = await create(owner, 'Doomed')
    const projectId = String(project['id'])
    for (let i = 0; i < 3; i++) await db.run(addThing, [projectId])
    const path = `/v1/projects/${project['tenant_id']}`
    expect((await api.call('DELETE', path, { token: owner.token })).body).toEqual({ status: 'deleting' })
    expect((await api.call('GET', path, { token: owner.token })).status).toBe(404)
    expect((await api.call('DELETE', path, { token: owner.token })).status).toBe(404)
    await expect(db.tx(tx => lockProject(tx, projectId))).rejects.toMatchObject({ status: 404 })

    const order: string[] = []
    const things: ProjectContents = {
      name: 'things',
      deleteAll: async (tx, id) => {
        order.push('things')
        await tx.run(dropThing, [id])
        await tx.run(
          statement('test.poke', `UPDATE machine SET pokes = pokes + 1, wake_at = now() WHERE id::text = $1`),
          [id],
        )
      },
      remaining: async (on, id) => (await on.one(countThings, [id])).n,
    }
    const runner = createRunner({ db, workflows: [projectWorkflow(api.deps, [things])], log, pollMs: 20 })
    await runner.start()
    await until(async () => (await readWorkflow(db, 'project', projectId)) === undefined, {
      what: 'the project to be removed',
    })
    await runner.stop({ drainMs: 1000 })
    expect(order).toHaveLength(3)
    expect((await db.one(left, [projectId])).n).toBe(0)
  })

  it('is no longer the default project of any account after its deletion', async () => {
    const person = await api.person()
    const home = (await api.call('GET', '/v1/projects', { token: person.token })).body[0]
    const next = await create(person, 'Next')
    await api.call('DELETE', `/v1/projects/${home.tenant_id}`, { token: person.token })
    const audit = await api.call('GET', '/v1/audit-logs?resource_type=project', { token: person.token })
    expect(audit.body['items'][0].resource_id).toBe(next['id'])
    await api.call('DELETE', `/v1/projects/${next['tenant_id']}`, { token: person.token })
    expect((await api.call('GET', '/v1/audit-logs', { token: person.token })).status).toBe(404)
    const again = await create(person, 'Again')
    expect(
      (await api.call('GET', '/v1/audit-logs?resource_type=project', { token: person.token })).body['items'][0]
        .resource_id,
    ).toBe(again['id'])
  })
})

describe('deleting an account', () => {
  it('deletes its projects without other members, gives shared projects another owner, and revokes all its credentials', async () => {
    await using api = await startIdentity()
    const admin = await api.person()
    const [owner, heir] = [await api.person(), await api.person()]
    const shared = (await api.call('POST', '/v1/projects', { token: owner.token, body: { name: 'Shared' } })).body
    const invited = await api.call('POST', `/v1/projects/${shared['tenant_id']}/members`, {
      token: owner.token,
      body: { email: heir.email, role: 'member' },
    })
    await accept(api, invited.body, heir.token)
    const pat = (await api.call('POST', '/v1/auth/tokens', { token: owner.token, body: { name: 'x' } })).body['token']
    const reported: string[] = []
    const listening = await api.deps.db.listen('account_revoked', id => reported.push(id))

    expect((await api.call('DELETE', '/v1/auth/me', { token: owner.token })).body).toEqual({ status: 'deleted' })
    for (const token of [owner.token, pat]) expect((await api.call('GET', '/v1/auth/me', { token })).status).toBe(401)
    expect((await api.call('POST', '/v1/auth/refresh', { body: { refresh_token: owner.refreshToken } })).status).toBe(
      401,
    )
    await until(() => reported.includes(owner.id), { what: 'the announcement' })
    await listening.stop()

    const members = await api.call('GET', `/v1/projects/${shared['tenant_id']}/members`, { token: heir.token })
    expect(members.body['members']).toMatchObject([{ user_id: heir.id, role: 'owner' }])
    expect((await api.call('GET', '/v1/auth/me', { token: admin.token })).status).toBe(200)
  })

  it("is refused for the installation's last admin while other accounts exist", async () => {
    await using api = await startIdentity()
    const admin = await api.person()
    const other = await api.person()
    expect((await api.call('DELETE', '/v1/auth/me', { token: admin.token })).status).toBe(409)
    expect((await api.call('GET', '/v1/auth/me', { token: admin.token })).status).toBe(200)
    expect((await api.call('DELETE', '/v1/auth/me', { token: other.token })).status).toBe(200)
    expect((await api.call('DELETE', '/v1/auth/me', { token: admin.token })).status).toBe(200)
  })
})

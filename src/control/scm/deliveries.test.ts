/** Tests that a webhook delivery takes effect once, and only on the apps of its repository. */
import { createHmac } from 'node:crypto'
import { createRequire } from 'node:module'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import type { Identity } from '../../../test/support/identity.ts'
import { statement } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import { owner, type Owner } from '../../../test/support/control/billing.ts'
import { parseEvent } from './events.ts'
import { previewName } from './rules.ts'
import {
  commitOf,
  deliver,
  deliverToApp,
  push,
  type ScmWorld,
  scmWorld,
  type Sent,
} from '../../../test/support/control/scm.ts'

/**
 * Webhook payloads recorded from GitHub. Their type is loose, because the payloads deviate from the types of the
 * package that contains them.
 */
const examples: ReadonlyArray<{ readonly name: string; readonly examples: readonly unknown[] }> = createRequire(
  import.meta.url,
)('@octokit/webhooks-examples')

let world: ScmWorld
let api: Identity
beforeAll(async () => {
  world = await scmWorld()
  api = world.api
})
afterAll(() => world[Symbol.asyncDispose]())

const sql = <Row>(name: string, text: string) => statement<Row>(`test.scm.${name}`, text)

describe('webhook deliveries', () => {
  it('an invalid signature changes nothing and is not recorded', async () => {
    const sent: Sent = { id: newId(), event: 'push', payload: push(1, commitOf(1), 1) }
    expect((await deliver(api, sent, 'guessed')).status).toBe(401)
    const kept = sql<{ n: number }>('kept', `SELECT count(*)::int AS n FROM scm_delivery WHERE id = $1`)
    expect(await api.deps.db.one(kept, [sent.id])).toEqual({ n: 0 })
  })

  it('a push builds and deploys every app of the repository, only once even if it is delivered again', async () => {
    const person = await owner(api)
    const app = await world.appFor(person, await world.install(person))
    const sent: Sent = { id: newId(), event: 'push', payload: push(app.repoId, commitOf(7), 1_800_000_000) }
    expect((await deliver(api, sent)).body).toEqual({ status: 'applied' })
    expect((await deliver(api, sent)).body).toEqual({ status: 'duplicate' })
    expect((await deliver(api, { ...sent, id: newId() })).body).toEqual({ status: 'ignored' })
    const found = await world.deploymentsOf(person, app.name)
    expect(found).toHaveLength(1)
    expect(found[0]).toMatchObject({
      status: 'building',
      git_branch: 'main',
      git_commit_hash: commitOf(7),
      git_commit_message: 'commit 0000',
      trigger_source: 'push',
      build_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    })
  })

  test.each([
    ['another branch', (id: number) => push(id, commitOf(8), 1, 'refs/heads/dev')],
    ['a tag', (id: number) => push(id, commitOf(8), 1, 'refs/tags/v1')],
    ['a deleted branch', (id: number) => push(id, commitOf(0), 1)],
    ['no branch (malformed)', () => ({ hello: 1 })],
  ])('a push event for %s builds nothing', async (_, payloadOf) => {
    const person = await owner(api)
    const app = await world.appFor(person, await world.install(person))
    const sent = { id: newId(), event: 'push', payload: payloadOf(app.repoId) }
    expect((await deliver(api, sent)).body).toEqual({ status: 'ignored' })
    expect(await world.deploymentsOf(person, app.name)).toEqual([])
  })

  it('an app that names the installation of another project gets no builds of its repositories', async () => {
    const victim = await owner(api)
    const id = await world.install(victim)
    const thief = await owner(api)
    const app = await world.appFor(thief, id)
    const sent = { id: newId(), event: 'push', payload: push(app.repoId, commitOf(9), 1) }
    expect((await deliver(api, sent)).body).toEqual({ status: 'ignored' })
    expect(await world.deploymentsOf(thief, app.name)).toEqual([])
  })

  it('recorded deliveries of GitHub, of every kind, are applied or ignored, but never refused', async () => {
    for (const { name, examples: all } of examples)
      for (const payload of all) {
        const answer = await deliver(api, { id: newId(), event: name, payload })
        expect(answer.status, name).toBe(200)
      }
    const kinds = new Map<string, number>()
    for (const { name, examples: all } of examples)
      for (const payload of all) {
        const raw = Buffer.from(JSON.stringify(payload))
        const { kind } = parseEvent({ id: 'x', event: name, style: 'github' }, raw)
        kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
      }
    expect(Object.fromEntries(kinds)).toMatchObject({ ping: 4, push: expect.any(Number), 'pull-request': 29 })
    expect(kinds.get('installation')).toBeGreaterThanOrEqual(6)
    expect(kinds.get('repository')).toBeGreaterThanOrEqual(4)
  })

  it('each app has a webhook for any git host, with its own secret', async () => {
    const person = await owner(api)
    const app = await world.appFor(person, null, 'https://git.example/team/app.git')
    const { body } = await api.call('GET', `/v1/apps/${app.name}/secret`, { token: person.token })
    const secret = String(body['scm_webhook_secret'])
    const raw = Buffer.from(JSON.stringify(push(5, commitOf(10), undefined)))
    const signed = (key: string) => ({
      'x-gitea-event': 'push',
      'x-gitea-delivery': newId(),
      'x-gitea-signature': createHmac('sha256', key).update(raw).digest('hex'),
    })
    expect((await deliverToApp(api, app.name, raw, signed('guess'))).status).toBe(401)
    expect((await deliverToApp(api, 'no-such-app', raw, signed(secret))).status).toBe(401)
    const headers = signed(secret)
    expect((await deliverToApp(api, app.name, raw, headers)).body).toEqual({ status: 'applied' })
    expect((await deliverToApp(api, app.name, raw, headers)).body).toEqual({ status: 'duplicate' })
    const gitlab = Buffer.from(
      JSON.stringify({ ref: 'refs/heads/main', after: commitOf(11), project: { default_branch: 'main' } }),
    )
    const lab = { 'x-gitlab-event': 'Push Hook', 'x-gitlab-token': secret }
    expect((await deliverToApp(api, app.name, gitlab, lab)).body).toEqual({ status: 'applied' })
    expect((await deliverToApp(api, app.name, gitlab, lab)).body).toEqual({ status: 'duplicate' })
    expect((await world.deploymentsOf(person, app.name)).map(one => one.git_commit_hash)).toEqual([
      commitOf(11),
      commitOf(10),
    ])
  })
})

describe('the webhook of an app', () => {
  const signed = (key: string, raw: Buffer) => ({
    'x-gitea-event': 'push',
    'x-gitea-delivery': newId(),
    'x-gitea-signature': createHmac('sha256', key).update(raw).digest('hex'),
  })
  const webhookOf = async (person: Owner, app: string) => {
    const { body } = await api.call('GET', `/v1/apps/${app}/secret`, { token: person.token })
    const url = new URL(String(body['webhook_url']))
    return { secret: String(body['scm_webhook_secret']), address: url.pathname.split('/').at(-1) ?? '' }
  }

  it("has the app's id in its URL, and another app with this id as its name does not get the deliveries", async () => {
    const [person, stranger] = [await owner(api), await owner(api)]
    const app = await world.appFor(person, null, 'https://git.example/team/app.git')
    const { secret, address } = await webhookOf(person, app.name)
    expect(address).toBe(app.id)
    const body = { name: app.id, git_url: 'https://git.example/team/other.git' }
    expect((await api.call('POST', '/v1/apps', { token: stranger.token, body })).status).toBe(200)
    const raw = Buffer.from(JSON.stringify(push(5, commitOf(10), undefined)))
    const taken = await webhookOf(stranger, app.id)
    expect((await deliverToApp(api, app.id, raw, signed(taken.secret, raw))).status).toBe(401)
    expect((await deliverToApp(api, address, raw, signed(secret, raw))).body).toEqual({ status: 'applied' })
  })

  it('verifies deliveries even if the app has no repository, and reports why it ignores them', async () => {
    const person = await owner(api)
    const app = await world.appFor(person, null, '')
    const { secret, address } = await webhookOf(person, app.name)
    const raw = Buffer.from(JSON.stringify(push(5, commitOf(10), undefined)))
    for (const to of [app.name, address])
      expect((await deliverToApp(api, to, raw, signed(secret, raw))).body).toEqual({ status: 'ignored' })
    const { body } = await api.call('GET', `/v1/apps/${app.name}/deliveries`, { token: person.token })
    expect(body[0]).toMatchObject({ status: 'ignored', reason: 'The app has no git_url.' })
  })

  it("can be addressed with the app's name even if a few accounts have hundreds of older apps with that name", async () => {
    const name = `web-${newId().slice(-8)}`
    const named = async (person: Owner) => {
      const body = { name, git_url: 'https://git.example/team/app.git' }
      expect((await api.call('POST', '/v1/apps', { token: person.token, body })).status).toBe(200)
    }
    for (let n = 0; n < 3; n++) {
      const crowd = await owner(api)
      await named(crowd)
      await api.deps.db.rows(crowdApps, [crowd.projectId, crowd.id, name])
    }
    const person = await owner(api)
    await named(person)
    const { secret } = await webhookOf(person, name)
    const raw = Buffer.from(JSON.stringify(push(5, commitOf(10), undefined, `refs/heads/${'x'.repeat(1000)}`)))
    // With a body this large, the secrets of at most 64 apps with the name are tried.
    const large = Buffer.concat([raw, Buffer.alloc((1 << 20) - raw.length, ' ')])
    expect((await deliverToApp(api, name, large, signed(secret, large))).body).toEqual({ status: 'ignored' })
  })

  it('rejects a body of more than 1 MiB', async () => {
    const raw = Buffer.alloc((1 << 20) + 1, ' ')
    expect((await deliverToApp(api, 'web', raw, signed('x', raw))).status).toBe(413)
  })

  /** Creates 99 projects of one account, each with a copy of its app. */
  const crowdApps = sql(
    'crowd',
    `WITH made AS (
       INSERT INTO project SELECT (jsonb_populate_record(p, jsonb_build_object('id', gen_random_uuid(),
         'slug', p.slug || '-' || n, 'ipv6_prefix', p.ipv6_prefix || n))).* FROM project p, generate_series(1, 99) n WHERE p.id = $1 RETURNING id),
     member AS (INSERT INTO project_member (project_id, account_id, role) SELECT id, $2, 'owner' FROM made)
     INSERT INTO app SELECT (jsonb_populate_record(a, jsonb_build_object('id', gen_random_uuid(), 'project_id', made.id,
       'hostname', made.id::text))).* FROM app a, made WHERE a.project_id = $1 AND a.name = $3`,
  )
})

describe('a pull request', () => {
  const pullRequest = (
    repoId: number,
    state: 'open' | 'closed',
    second: number,
    change: { foreign?: boolean } = {},
  ) => ({
    action: state === 'open' ? 'synchronize' : 'closed',
    number: 12,
    repository: { id: repoId },
    pull_request: {
      state,
      title: 'A change',
      updated_at: new Date(1_800_000_000_000 + second * 1000).toISOString(),
      head: { ref: 'topic', sha: commitOf(second), repo: { id: change.foreign ? 1 : repoId } },
    },
  })
  const appsOf = async (person: Owner) =>
    ((await api.call('GET', '/v1/apps', { token: person.token })).body as unknown as Array<Record<string, string>>).map(
      one => one.name,
    )

  it('has a preview app while it is open, unless its commits are in another repository', async () => {
    const person = await owner(api)
    const app = await world.appFor(person, await world.install(person))
    const hosts = { require: {}, prefer: { region: 'eu' } }
    await api.call('PATCH', `/v1/apps/${app.name}`, { token: person.token, body: { port: 8080, hosts } })
    const send = (payload: unknown) => deliver(api, { id: newId(), event: 'pull_request', payload })
    await send(pullRequest(app.repoId, 'open', 1, { foreign: true }))
    expect(await appsOf(person)).toEqual([app.name])
    expect((await send(pullRequest(app.repoId, 'open', 2))).body).toEqual({ status: 'applied' })
    const preview = previewName(app.name, 12)
    expect(await appsOf(person)).toEqual([preview, app.name])
    const made = await api.call('GET', `/v1/apps/${preview}`, { token: person.token })
    expect(made.body).toMatchObject({ hosts })
    await send(pullRequest(app.repoId, 'open', 3))
    expect((await world.deploymentsOf(person, preview)).map(one => one.git_commit_hash)).toEqual([
      commitOf(3),
      commitOf(2),
    ])
    await send(pullRequest(app.repoId, 'closed', 5))
    await send(pullRequest(app.repoId, 'open', 4))
    expect(await appsOf(person)).toEqual([app.name])
  })

  it('gets a preview app whose name is a DNS label', () => {
    fc.assert(
      fc.property(
        fc.stringMatching(/^[a-z0-9](?:-?[a-z0-9]){0,19}(?:[a-z0-9]{0,20})$/),
        fc.integer({ min: 1, max: 999_999 }),
        (name, number) => {
          const made = previewName(name, number)
          expect(made).toMatch(/^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/)
          expect(made.endsWith(`-pr-${number}`)).toBe(true)
          expect(made).not.toContain('--')
        },
      ),
    )
  })
})

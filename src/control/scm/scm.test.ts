/** The integration over HTTP: installing it, what it may read, and what deliveries do, in any order and number. */
import { createHmac } from 'node:crypto'
import { createRequire } from 'node:module'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { startWholeApi } from '../../../test/security/cases.ts'
import type { Identity } from '../../../test/support/identity.ts'
import { statement } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import { inParallel, owner, type Owner } from '../billing/testing.ts'
import { parseEvent } from './events.ts'
import { createSourceHost, scmReports, sourceAuth } from './index.ts'
import { previewName } from './rules.ts'
import { describeDelivery, isSigned } from './signature.ts'
import {
  deliver,
  deliverToApp,
  type FakeHost,
  fakeHost,
  installationToken,
  type Sent,
  webhookSecret,
} from './testing.ts'

/** As GitHub sent them; the package's types say otherwise than it is. */
const examples: ReadonlyArray<{ readonly name: string; readonly examples: readonly unknown[] }> = createRequire(
  import.meta.url,
)('@octokit/webhooks-examples')

let host: FakeHost
let api: Identity
beforeAll(async () => {
  host = await fakeHost()
  api = await startWholeApi({ env: host.env })
})
afterAll(async () => {
  await api[Symbol.asyncDispose]()
  await host[Symbol.asyncDispose]()
})

let installations = 9000
const sql = <Row>(name: string, text: string) => statement<Row>(`test.scm.${name}`, text)

async function install(person: Owner): Promise<number> {
  const id = ++installations
  host.installations.set(id, { login: `org-${id}` })
  const { body } = await api.call('GET', '/v1/scm/install', { token: person.token })
  const state = new URL(body['url']).searchParams.get('state') ?? ''
  const path = `/v1/scm/callback?installation_id=${id}&setup_action=install&state=${encodeURIComponent(state)}`
  expect(await api.call('GET', path)).toMatchObject({ status: 200, body: { status: 'installed' } })
  return id
}

let repositories = 100
async function appFor(person: Owner, installationId: number | null, gitUrl = 'https://github.com/team/app.git') {
  const repoId = ++repositories
  const name = `app-${newId().slice(-8)}`
  const body = {
    name,
    git_url: gitUrl,
    scm_installation_id: installationId,
    scm_repo_id: repoId,
    scm_repo_full_name: 'team/app',
  }
  const made = await api.call('POST', '/v1/apps', { token: person.token, body })
  expect(made.status).toBe(200)
  return { name, repoId, id: String(made.body['id']) }
}

const push = (repoId: number, commit: string, pushedAt: number | undefined, ref = 'refs/heads/main') => ({
  ...{ ref, after: commit, head_commit: { message: `commit ${commit.slice(0, 4)}` } },
  repository: { id: repoId, default_branch: 'main', ...(pushedAt === undefined ? {} : { pushed_at: pushedAt }) },
})
const commitOf = (n: number) => n.toString(16).padStart(40, '0')
const deploymentsOf = async (person: Owner, app: string) =>
  (await api.call('GET', `/v1/apps/${app}/deployments`, { token: person.token })).body as unknown as Array<
    Record<string, string>
  >

describe('signatures', () => {
  /** docs.github.com, "Testing the webhook payload validation". */
  const official = 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17'

  it("GitHub's own example is accepted by the library and by the webhook of an app", async () => {
    const raw = Buffer.from('Hello, World!')
    expect(await createSourceHost(api.deps)?.isSigned(raw, official)).toBe(true)
    expect(await createSourceHost(api.deps)?.isSigned(raw, official.replace('7571', '7572'))).toBe(false)
    expect(isSigned(webhookSecret, raw, { 'x-hub-signature-256': official })).toBe(true)
    expect(
      isSigned('', raw, { 'x-hub-signature-256': `sha256=${createHmac('sha256', '').update(raw).digest('hex')}` }),
    ).toBe(false)
  })

  test.each([
    ['GitHub', (hex: string) => ({ 'x-hub-signature-256': `sha256=${hex}`, 'x-github-event': 'push' }), 'push'],
    ['Gitea', (hex: string) => ({ 'x-gitea-signature': hex, 'x-gitea-event': 'push' }), 'push'],
    ['Forgejo', (hex: string) => ({ 'x-forgejo-signature': hex, 'x-forgejo-event': 'push' }), 'push'],
    ['GitLab', () => ({ 'x-gitlab-token': 'secret', 'x-gitlab-event': 'Push Hook' }), 'Push Hook'],
  ] as const)('%s', (_, headersOf, event) => {
    const raw = Buffer.from('{"a":1}')
    const sign = (secret: string) => headersOf(createHmac('sha256', secret).update(raw).digest('hex'))
    expect(isSigned('secret', raw, sign('secret'))).toBe(true)
    expect(isSigned('other', raw, sign('secret'))).toBe(false)
    expect(isSigned('secret', Buffer.from('{"a":2}'), sign('secret'))).toBe('x-gitlab-token' in sign('secret'))
    expect(isSigned('secret', raw, {})).toBe(false)
    expect(describeDelivery(raw, sign('secret'))).toMatchObject({ event, id: expect.stringMatching(/^[0-9a-f]{64}$/) })
  })

  it('of any bytes only those of the secret pass', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 200 }),
        fc.string({ minLength: 1 }),
        fc.string(),
        (bytes, secret, guess) => {
          const raw = Buffer.from(bytes)
          const header = `sha256=${createHmac('sha256', guess).update(raw).digest('hex')}`
          expect(isSigned(secret, raw, { 'x-hub-signature-256': header })).toBe(secret === guess)
        },
      ),
    )
  })
})

describe('installing', () => {
  it('binds the installation to the project that asked, and lists what it can read', async () => {
    const person = await owner(api)
    const id = await install(person)
    host.repositories.push({
      ...{ id: 1, full_name: 'team/app', private: true, default_branch: 'main', owner: { login: 'team' } },
      ...{ clone_url: 'https://github.com/team/app.git', html_url: 'https://github.com/team/app' },
    })
    expect((await api.call('GET', '/v1/scm/accounts', { token: person.token })).body).toEqual([
      { installation_id: id, login: `org-${id}`, type: 'Organization', avatar_url: null },
    ])
    expect((await api.call('GET', '/v1/scm/repos', { token: person.token })).body).toEqual([
      expect.objectContaining({ id: 1, full_name: 'team/app', private: true, installation_id: id }),
    ])
    const stranger = await owner(api)
    expect((await api.call('GET', '/v1/scm/accounts', { token: stranger.token })).body).toEqual([])
    expect((await api.call('GET', '/v1/scm/repos', { token: stranger.token })).body).toEqual([])
  })

  it('takes only a state of ours, once, and an installation that the source host knows', async () => {
    const person = await owner(api)
    const url = new URL((await api.call('GET', '/v1/scm/install', { token: person.token })).body['url'])
    expect(url.origin + url.pathname).toBe('https://github.com/apps/mote-test/installations/new')
    const state = url.searchParams.get('state') ?? ''
    const back = (id: number, text: string | undefined) =>
      api.call(
        'GET',
        `/v1/scm/callback?installation_id=${id}&setup_action=install${text === undefined ? '' : `&state=${encodeURIComponent(text)}`}`,
      )
    const id = ++installations
    expect((await back(id, state)).status).toBe(400)
    host.installations.set(id, { login: 'late' })
    for (const bad of [undefined, '', 'x.y', `${state}x`, `x${state}`]) expect((await back(id, bad)).status).toBe(400)
    expect((await back(id, state)).status).toBe(200)
    expect((await back(id, state)).status).toBe(400)
    const old = new URL((await api.call('GET', '/v1/scm/install', { token: person.token })).body['url'])
    api.clock.advance(31 * 60_000)
    expect((await back(id, old.searchParams.get('state') ?? '')).status).toBe(400)
  })

  it('a token reads one repository of a project that may use the installation, and goes nowhere else', async () => {
    const person = await owner(api)
    const id = await install(person)
    const auth = sourceAuth(api.deps, createSourceHost(api.deps))
    const build = { projectId: person.projectId, gitUrl: 'https://github.com/team/app.git', scmInstallationId: id }
    expect(await auth(build)).toEqual({ username: 'x-access-token', password: installationToken })
    expect(host.tokensFor.at(-1)).toEqual({ repositories: ['app'], permissions: { contents: 'read' } })
    const asked = host.tokensFor.length
    await auth(build)
    expect(host.tokensFor.length).toBe(asked)
    const stranger = await owner(api)
    expect(await auth({ ...build, projectId: stranger.projectId })).toBeUndefined()
    expect(await auth({ ...build, gitUrl: 'https://evil.example/team/app.git' })).toBeUndefined()
    expect(await auth({ ...build, scmInstallationId: null })).toBeUndefined()
    const stored = sql<{ found: number }>(
      'secrets',
      `SELECT count(*)::int AS found FROM (SELECT to_jsonb(b)::text AS t FROM build b UNION ALL SELECT to_jsonb(i)::text FROM scm_installation i) x WHERE t LIKE '%ghs_%'`,
    )
    expect(await api.deps.db.one(stored)).toEqual({ found: 0 })
  })

  it('a source host that is down is 503, and stops nothing else', async () => {
    const person = await owner(api)
    await install(person)
    host.isDown = true
    try {
      expect((await api.call('GET', '/v1/scm/repos', { token: person.token })).status).toBe(503)
      expect((await api.call('GET', '/v1/scm/accounts', { token: person.token })).status).toBe(200)
    } finally {
      host.isDown = false
      api.clock.advance(60_000)
    }
  })
})

describe('deliveries', () => {
  it('a wrong signature changes nothing and is not remembered', async () => {
    const sent: Sent = { id: newId(), event: 'push', payload: push(1, commitOf(1), 1) }
    expect((await deliver(api, sent, 'guessed')).status).toBe(401)
    const kept = sql<{ n: number }>('kept', `SELECT count(*)::int AS n FROM scm_delivery WHERE id = $1`)
    expect(await api.deps.db.one(kept, [sent.id])).toEqual({ n: 0 })
  })

  it('a push builds and deploys every app of the repository, once', async () => {
    const person = await owner(api)
    const app = await appFor(person, await install(person))
    const sent: Sent = { id: newId(), event: 'push', payload: push(app.repoId, commitOf(7), 1_800_000_000) }
    expect((await deliver(api, sent)).body).toEqual({ status: 'applied' })
    expect((await deliver(api, sent)).body).toEqual({ status: 'duplicate' })
    expect((await deliver(api, { ...sent, id: newId() })).body).toEqual({ status: 'ignored' })
    const found = await deploymentsOf(person, app.name)
    expect(found).toHaveLength(1)
    expect(found[0]).toMatchObject({
      ...{ status: 'building', git_branch: 'main', git_commit_hash: commitOf(7), git_commit_message: 'commit 0000' },
      ...{ trigger_source: 'push', build_id: expect.stringMatching(/^[0-9a-f-]{36}$/) },
    })
  })

  test.each([
    ['another branch', (id: number) => push(id, commitOf(8), 1, 'refs/heads/dev')],
    ['a tag', (id: number) => push(id, commitOf(8), 1, 'refs/tags/v1')],
    ['the end of a branch', (id: number) => push(id, commitOf(0), 1)],
    ['nonsense', () => ({ hello: 1 })],
  ])('%s builds nothing', async (_, payloadOf) => {
    const person = await owner(api)
    const app = await appFor(person, await install(person))
    const sent = { id: newId(), event: 'push', payload: payloadOf(app.repoId) }
    expect((await deliver(api, sent)).body).toEqual({ status: 'ignored' })
    expect(await deploymentsOf(person, app.name)).toEqual([])
  })

  it('whoever names a foreign installation gets no builds of its repositories', async () => {
    const victim = await owner(api)
    const id = await install(victim)
    const thief = await owner(api)
    const app = await appFor(thief, id)
    const sent = { id: newId(), event: 'push', payload: push(app.repoId, commitOf(9), 1) }
    expect((await deliver(api, sent)).body).toEqual({ status: 'ignored' })
    expect(await deploymentsOf(thief, app.name)).toEqual([])
  })

  it('every recorded delivery of GitHub is understood or ignored, never refused', async () => {
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

  it('an app has a webhook of its own, for any git host, and its own secret opens only it', async () => {
    const person = await owner(api)
    const app = await appFor(person, null, 'https://git.example/team/app.git')
    const { body } = await api.call('GET', `/v1/apps/${app.name}/secret`, { token: person.token })
    const secret = String(body['scm_webhook_secret'])
    const raw = Buffer.from(JSON.stringify(push(5, commitOf(10), undefined)))
    const signed = (key: string) => ({
      'x-gitea-event': 'push',
      ...{ 'x-gitea-delivery': newId(), 'x-gitea-signature': createHmac('sha256', key).update(raw).digest('hex') },
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
    expect((await deploymentsOf(person, app.name)).map(one => one.git_commit_hash)).toEqual([
      commitOf(11),
      commitOf(10),
    ])
  })
})

describe('pull requests', () => {
  const pullRequest = (
    repoId: number,
    state: 'open' | 'closed',
    second: number,
    change: { foreign?: boolean } = {},
  ) => ({
    ...{ action: state === 'open' ? 'synchronize' : 'closed', number: 12, repository: { id: repoId } },
    pull_request: {
      ...{ state, title: 'A change', updated_at: new Date(1_800_000_000_000 + second * 1000).toISOString() },
      head: { ref: 'topic', sha: commitOf(second), repo: { id: change.foreign ? 1 : repoId } },
    },
  })
  const appsOf = async (person: Owner) =>
    ((await api.call('GET', '/v1/apps', { token: person.token })).body as unknown as Array<Record<string, string>>).map(
      one => one.name,
    )

  it('get an app of their own while they are open; those of strangers do not', async () => {
    const person = await owner(api)
    const app = await appFor(person, await install(person))
    const send = (payload: unknown) => deliver(api, { id: newId(), event: 'pull_request', payload })
    await send(pullRequest(app.repoId, 'open', 1, { foreign: true }))
    expect(await appsOf(person)).toEqual([app.name])
    expect((await send(pullRequest(app.repoId, 'open', 2))).body).toEqual({ status: 'applied' })
    const preview = previewName(app.name, 12)
    expect(await appsOf(person)).toEqual([preview, app.name])
    await send(pullRequest(app.repoId, 'open', 3))
    expect((await deploymentsOf(person, preview)).map(one => one.git_commit_hash)).toEqual([commitOf(3), commitOf(2)])
    await send(pullRequest(app.repoId, 'closed', 5))
    await send(pullRequest(app.repoId, 'open', 4))
    expect(await appsOf(person)).toEqual([app.name])
  })

  it('have names that are DNS labels', () => {
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

describe('1,000 deliveries, doubled and shuffled', () => {
  const state = {
    pushes: sql('pushes', `SELECT branch, commit_hash FROM scm_push WHERE app_id = $1`),
    installation: sql('installation', `SELECT login, state FROM scm_installation WHERE id = $1`),
    repository: sql('repository', `SELECT full_name, is_deleted FROM scm_repository WHERE id = $1`),
    app: sql('app', `SELECT scm_repo_full_name, git_url FROM app WHERE id = $1`),
    previews: sql(
      'previews',
      `SELECT number, v.state, a.want FROM scm_preview v LEFT JOIN app a ON a.id = v.preview_app_id WHERE v.app_id = $1 ORDER BY number`,
    ),
  }

  /** Pushes, renames, suspensions and pull requests, each a second after the one before. */
  function story(repoId: number, installationId: number, count: number): Sent[] {
    const at = (second: number) => 1_700_000_000 + second
    return Array.from({ length: count }, (_, n): Sent => {
      const id = newId()
      if (n % 5 === 0)
        return {
          ...{ id, event: 'repository' },
          payload: {
            action: 'renamed',
            repository: {
              ...{ id: repoId, full_name: `team/app-${n}`, clone_url: `https://github.com/team/app-${n}.git` },
              updated_at: new Date(at(n) * 1000).toISOString(),
            },
          },
        }
      if (n % 5 === 1)
        return {
          ...{ id, event: 'installation' },
          payload: {
            action: n % 10 === 1 ? 'unsuspend' : 'new_permissions_accepted',
            installation: { id: installationId, updated_at: at(n), account: { login: `org-${n}`, type: 'User' } },
          },
        }
      if (n % 5 === 2) {
        const open = n % 20 < 10
        const updated_at = new Date(at(n) * 1000).toISOString()
        return {
          ...{ id, event: 'pull_request' },
          payload: {
            ...{ action: open ? 'opened' : 'closed', number: 1 + (n % 4), repository: { id: repoId } },
            pull_request: {
              ...{ state: open ? 'open' : 'closed', title: 't', updated_at },
              head: { ref: `topic-${n % 4}`, sha: commitOf(n), repo: { id: repoId } },
            },
          },
        }
      }
      return { id, event: 'push', payload: push(repoId, commitOf(n), at(n)) }
    })
  }

  async function outcome(deliveries: (all: Sent[]) => Sent[], width: number) {
    const person = await owner(api)
    const installationId = await install(person)
    const app = await appFor(person, installationId)
    const sent = deliveries(story(app.repoId, installationId, 500))
    const answers = await inParallel(sent, width, one => deliver(api, one))
    expect(answers.filter(one => one.status !== 200).map(one => one.body)).toEqual([])
    const { db } = api.deps
    const [newest] = await deploymentsOf(person, app.name)
    return {
      sent: sent.length,
      pushes: await db.rows(state.pushes, [app.id]),
      installation: await db.rows(state.installation, [installationId]),
      repository: await db.rows(state.repository, [app.repoId]),
      app: await db.rows(state.app, [app.id]),
      previews: await db.rows(state.previews, [app.id]),
      newest: newest?.git_commit_hash,
      waiting: (await deploymentsOf(person, app.name)).filter(one => one.status === 'building').length,
    }
  }

  it('end as when each comes once and in order', async () => {
    const inOrder = await outcome(all => all, 1)
    const shuffled = await outcome(all => {
      const [seed = 0] = [20_261_121]
      const twice = [...all, ...all]
      let random = seed
      for (let at = twice.length - 1; at > 0; at--) {
        random = (random * 1_103_515_245 + 12_345) % 2 ** 31
        const other = random % (at + 1)
        ;[twice[at], twice[other]] = [twice[other]!, twice[at]!]
      }
      return twice
    }, 8)
    expect(shuffled.sent).toBe(1000)
    expect({ ...shuffled, sent: 0 }).toEqual({ ...inOrder, sent: 0 })
    expect(inOrder).toMatchObject({ newest: commitOf(499), waiting: 1 })
  }, 180_000)
})

it('the source host is told how the deployment of a commit goes, and again when it was down', async () => {
  const person = await owner(api)
  const app = await appFor(person, await install(person))
  await deliver(api, { id: newId(), event: 'push', payload: push(app.repoId, commitOf(77), 1_900_000_000) })
  const { deps } = api
  const sweep = scmReports({ ...deps, log: deps.log }, createSourceHost(deps))
  const told = () => host.statuses.filter(one => one.path.endsWith(commitOf(77))).map(one => one.body.state)
  const run = () => sweep.run({ now: new Date(), signal: new AbortController().signal })
  host.isDown = true
  await run()
  host.isDown = false
  expect(told()).toEqual([])
  await deps.db.run(sql('due', `UPDATE scm_report SET due_at = now()`))
  api.clock.advance(60_000)
  const fresh = scmReports(deps, createSourceHost(deps))
  await fresh.run({ now: new Date(), signal: new AbortController().signal })
  expect(told()).toEqual(['pending'])
  await run()
  expect(told()).toEqual(['pending'])
  await deps.db.run(
    sql(
      'end',
      `UPDATE deployment SET outcome = 'failed', error_message = 'npm ended', updated_at = now() WHERE app_id = $1`,
    ),
    [app.id],
  )
  await fresh.run({ now: new Date(), signal: new AbortController().signal })
  const last = host.statuses.findLast(one => one.path.endsWith(commitOf(77)))
  expect(last?.body).toMatchObject({ state: 'failure', description: 'npm ended', context: `mote/${app.name}` })
})

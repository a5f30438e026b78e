/**
 * Tests the installation of the GitHub integration for a project, and which repositories the project may read
 * afterwards.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Identity } from '../../../test/support/identity.ts'
import { statement } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import { owner } from '../../../test/support/control/billing.ts'
import { createSourceHost, sourceAuth } from './index.ts'
import {
  commitOf,
  cookieOf,
  deliver,
  type FakeHost,
  installationToken,
  push,
  type ScmWorld,
  scmWorld,
} from '../../../test/support/control/scm.ts'

let world: ScmWorld
let host: FakeHost
let api: Identity
beforeAll(async () => {
  world = await scmWorld()
  ;({ host, api } = world)
})
afterAll(() => world[Symbol.asyncDispose]())

const begin = async (token: string) => {
  const begun = await api.call('GET', '/v1/scm/install', { token })
  const state = new URL(begun.body['url']).searchParams.get('state') ?? ''
  return { state, cookie: cookieOf(begun), setCookie: String(begun.headers['set-cookie']) }
}
const sql = <Row>(name: string, text: string) => statement<Row>(`test.scm.${name}`, text)

describe('installing the integration', () => {
  it('binds the installation to the project that started it, which can then list the repositories', async () => {
    const person = await owner(api)
    const id = await world.install(person)
    host.repositories.push({
      id: 1,
      full_name: 'team/app',
      private: true,
      default_branch: 'main',
      owner: { login: 'team' },
      clone_url: 'https://github.com/team/app.git',
      html_url: 'https://github.com/team/app',
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

  it('binds nothing unless the user in the browser controls the installation', async () => {
    const [victim, attacker] = [await owner(api), await owner(api)]
    const bound = await world.install(victim)
    const unbound = 88
    host.installations.set(unbound, { login: 'nobody yet' })
    host.repositories.push({
      id: 2,
      full_name: 'team/private',
      private: true,
      default_branch: 'main',
      clone_url: 'https://github.com/team/private.git',
      html_url: 'https://github.com/team/private',
    })
    const proofs = {
      'no code': undefined,
      'an empty code': '',
      'a code that GitHub did not issue': 'made-up',
      'a code of a person without installations': 'of-attacker',
      'a code of a person who controls another installation': 'of-other',
      'a code of a collaborator of one repository': 'of-collaborator',
    }
    for (const id of [bound, unbound])
      for (const [title, code] of Object.entries(proofs)) {
        host.codes.set('of-attacker', { installations: [] })
        host.codes.set('of-other', { installations: [id + 1] })
        host.codes.set('of-collaborator', { installations: [id], readable: host.repositories.length - 1 })
        const { state, cookie } = await begin(attacker.token)
        const query = new URLSearchParams({ installation_id: String(id), setup_action: 'install', state })
        if (code !== undefined) query.set('code', code)
        const reply = await api.call('GET', `/v1/scm/callback?${query.toString()}`, { headers: { cookie } })
        expect([title, reply.status, reply.body['error']]).toEqual([title, 400, expect.stringContaining('code')])
      }
    for (const path of ['/v1/scm/accounts', '/v1/scm/repos'])
      expect((await api.call('GET', path, { token: attacker.token })).body).toEqual([])
    const { state, cookie } = await begin(attacker.token)
    host.codes.set('of-owner', { installations: [bound] })
    const query = `installation_id=${bound}&setup_action=install&state=${encodeURIComponent(state)}&code=of-owner`
    expect((await api.call('GET', `/v1/scm/callback?${query}`, { headers: { cookie } })).status).toBe(200)
  })

  it('accepts a state only if it is signed and not yet used, and an installation only if the source host confirms it', async () => {
    const person = await owner(api)
    const begun = await api.call('GET', '/v1/scm/install', { token: person.token })
    const url = new URL(begun.body['url'])
    expect(url.origin + url.pathname).toBe('https://github.com/apps/mote-test/installations/new')
    const state = url.searchParams.get('state') ?? ''
    const back = (id: number, text: string | undefined, cookie = cookieOf(begun)) =>
      api.call(
        'GET',
        `/v1/scm/callback?installation_id=${id}&setup_action=install&code=of-person${text === undefined ? '' : `&state=${encodeURIComponent(text)}`}`,
        { headers: { cookie } },
      )
    const id = 77
    host.codes.set('of-person', { installations: [] })
    expect((await back(id, state)).status).toBe(400)
    host.installations.set(id, { login: 'late' })
    host.codes.set('of-person', { installations: [id] })
    for (const bad of [undefined, '', 'x.y', `${state}x`, `x${state}`]) expect((await back(id, bad)).status).toBe(400)
    const done = await back(id, state)
    expect([done.status, String(done.headers['set-cookie'])]).toEqual([200, expect.stringContaining('Max-Age=0')])
    expect((await back(id, state)).status).toBe(400)
    const late = await api.call('GET', '/v1/scm/install', { token: person.token })
    const old = new URL(late.body['url'])
    api.clock.advance(31 * 60_000)
    expect((await back(id, old.searchParams.get('state') ?? '', cookieOf(late))).status).toBe(400)
  })

  it('binds nothing if the link is opened in another browser than the one that started the installation', async () => {
    const attacker = await owner(api)
    const victim = await owner(api)
    const [theirs, own] = [await begin(attacker.token), await begin(victim.token)]
    expect(theirs.setCookie).toMatch(
      /^mote-install=[\w-]{43}; Path=\/v1\/scm\/callback; Max-Age=1800; HttpOnly; SameSite=Lax$/,
    )
    host.installations.set(78, { login: 'victims' })
    host.codes.set('of-victim', { installations: [78] })
    const back = (cookie: string | undefined) =>
      api.call(
        'GET',
        `/v1/scm/callback?installation_id=78&setup_action=install&code=of-victim&state=${encodeURIComponent(theirs.state)}`,
        {
          headers: cookie === undefined ? {} : { cookie },
        },
      )
    for (const cookie of [undefined, own.cookie, 'mote-install=', `${theirs.cookie}x`]) {
      const refused = await back(cookie)
      expect([refused.status, refused.body['error']]).toEqual([400, expect.stringContaining('another browser')])
    }
    expect((await api.call('GET', '/v1/scm/accounts', { token: attacker.token })).body).toEqual([])
    expect((await back(`other=1; ${theirs.cookie}`)).status).toBe(200)
  })

  it('needs a confirmation if a program without a browser started it; the confirmation is valid once and only for the project that started it', async () => {
    const [person, stranger] = [await owner(api), await owner(api)]
    const begun = await api.call('GET', '/v1/scm/install?confirm=true', { token: person.token })
    expect(begun.headers['set-cookie']).toBeUndefined()
    const state = new URL(begun.body['url']).searchParams.get('state') ?? ''
    host.installations.set(79, { login: 'terminal' })
    host.codes.set('of-terminal', { installations: [79] })
    const back = (code: string) =>
      api.call(
        'GET',
        `/v1/scm/callback?installation_id=79&setup_action=install&code=${code}&state=${encodeURIComponent(state)}`,
      )
    expect((await back('made-up')).status, 'the source host does not know the person').toBe(400)
    const shown = await back('of-terminal')
    expect(shown.body).toMatchObject({ status: 'confirm', confirmation: expect.any(String) })
    const accounts = async () => (await api.call('GET', '/v1/scm/accounts', { token: person.token })).body
    expect(await accounts(), 'nothing is bound yet').toEqual([])
    const confirm = (token: string, confirmation: unknown) =>
      api.call('POST', '/v1/scm/install/confirm', { token, body: { confirmation } })
    const { confirmation } = shown.body
    for (const refused of [
      await confirm(stranger.token, confirmation),
      await confirm(person.token, state),
      await confirm(person.token, `${confirmation}x`),
    ])
      expect(refused).toMatchObject({ status: 400, body: { details: [{ field: 'confirmation' }] } })
    expect((await confirm(person.token, confirmation)).body).toEqual({ status: 'installed' })
    expect(await accounts()).toMatchObject([{ installation_id: 79, login: 'terminal' }])
    expect((await confirm(person.token, confirmation)).status, 'it is good once').toBe(400)
  })

  it("lets the project's builds read each repository with a token for only this repository, which is sent only to the source host", async () => {
    const person = await owner(api)
    const id = await world.install(person)
    const auth = sourceAuth(api.deps, createSourceHost(api.deps))
    const build = {
      appId: newId(),
      projectId: person.projectId,
      gitUrl: 'https://github.com/team/app.git',
      scmInstallationId: id,
    }
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

  it('responds with 503 while the source host is down; deployments still work', async () => {
    const person = await owner(api)
    const app = await world.appFor(person, await world.install(person))
    host.isDown = true
    try {
      expect((await api.call('GET', '/v1/scm/repos', { token: person.token })).status).toBe(503)
      expect((await api.call('GET', '/v1/scm/accounts', { token: person.token })).status).toBe(200)
      const sent = { id: newId(), event: 'push', payload: push(app.repoId, commitOf(5), 1_800_000_000) }
      expect((await deliver(api, sent)).body).toEqual({ status: 'applied' })
      expect(await world.deploymentsOf(person, app.name)).toMatchObject([{ status: 'building' }])
      const image = { image: 'example.com/image:1' }
      expect((await api.call('POST', `/v1/apps/${app.name}/deploy`, { token: person.token, body: image })).status).toBe(
        200,
      )
    } finally {
      host.isDown = false
      api.clock.advance(60_000)
    }
  })
})

/** Tests repositories, branches and credentials of apps, and their lists of deliveries. */
import { createHmac } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import type { Identity } from '../../../test/support/identity.ts'
import { statement } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import { owner, type Owner } from '../../../test/support/control/billing.ts'
import { sourceAuth } from './index.ts'
import { commitOf, deliver, deliverToApp, push, type ScmWorld, scmWorld } from '../../../test/support/control/scm.ts'

let world: ScmWorld
let api: Identity
let person: Owner
beforeAll(async () => {
  world = await scmWorld()
  api = world.api
  person = await owner(api)
})
afterAll(() => world[Symbol.asyncDispose]())

const knownHosts = 'git.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEU9ssHxnby8P3/dd2NJHdRNGx7nLhcSyEcsRt51y/JW'
const call = (method: 'GET' | 'PUT' | 'PATCH' | 'POST' | 'DELETE', path: string, body?: object, token = person.token) =>
  api.call(method, path, { token, ...(body ? { body } : {}) })
const appWith = async (gitUrl: string, change: object = {}) => {
  const name = `app-${newId().slice(-8)}`
  const made = await call('POST', '/v1/apps', { name, git_url: gitUrl, ...change })
  expect(made.status).toBe(200)
  return { name, id: String(made.body['id']), path: `/v1/apps/${name}` }
}
const credentialFor = ({ id }: { id: string }, gitUrl: string) =>
  sourceAuth(api.deps, undefined)({ appId: id, projectId: person.projectId, gitUrl, scmInstallationId: null })

describe('the git credential of an app', () => {
  it('can be a token for one host, which is stored encrypted, never returned, and can be deleted', async () => {
    const url = 'https://git.example/team/app.git'
    const app = await appWith(url)
    expect((await call('GET', `${app.path}/git-credential`)).status).toBe(404)
    const token = 'glpat-secret-secret'
    const set = await call('PUT', `${app.path}/git-credential`, { kind: 'token', username: 'deploy', token })
    const shown = { kind: 'token', host: 'git.example', username: 'deploy', public_key: null, known_hosts: null }
    expect(set.body).toEqual({ ...shown, updated_at: expect.any(String) })
    expect((await call('GET', `${app.path}/git-credential`)).body).toEqual(set.body)
    expect(await credentialFor(app, url)).toEqual({ username: 'deploy', password: token })
    for (const other of ['https://evil.example/app.git', 'https://git.example:8443/a.git', 'git@git.example:a.git'])
      expect(await credentialFor(app, other), other).toBeUndefined()
    const found = statement<{ n: number }>(
      'test.scm.token',
      `SELECT count(*)::int AS n FROM (SELECT g::text AS t FROM git_credential g UNION ALL SELECT l::text FROM audit_log l) x
       WHERE t LIKE '%' || $1 || '%' OR t LIKE '%' || encode($1::bytea, 'hex') || '%'`,
    )
    expect(await api.deps.db.one(found, [token])).toEqual({ n: 0 })
    expect((await call('DELETE', `${app.path}/git-credential`)).status).toBe(200)
    expect(await credentialFor(app, url)).toBeUndefined()
    expect((await call('DELETE', `${app.path}/git-credential`)).status).toBe(404)
  })

  it('can be a generated SSH key; without it, an app with an SSH repository cannot be deployed', async () => {
    const url = 'git@git.example:team/app.git'
    const app = await appWith(url)
    const early = await call('POST', `${app.path}/deploy`, {})
    expect([early.status, early.body['error']]).toEqual([409, expect.stringContaining('git-credential')])
    const set = await call('PUT', `${app.path}/git-credential`, { kind: 'ssh_key', known_hosts: knownHosts })
    expect(set.body).toMatchObject({ kind: 'ssh_key', host: 'git.example', known_hosts: `${knownHosts}\n` })
    expect(set.body['public_key']).toMatch(/^ssh-ed25519 [\w+/=]{68} mote app-/)
    expect(JSON.stringify(set.body)).not.toContain('PRIVATE')
    const credential = await credentialFor(app, url)
    expect(credential).toMatchObject({ privateKey: expect.stringContaining('OPENSSH PRIVATE KEY') })
    expect((await call('POST', `${app.path}/deploy`, {})).body['status']).toBe('building')
  })

  test.each([
    ['a token credential without a token', 'https://git.example/a.git', { kind: 'token' }, 400],
    ['a key without known hosts', 'git@git.example:a.git', { kind: 'ssh_key' }, 400],
    ['a key with invalid known hosts', 'git@git.example:a.git', { kind: 'ssh_key', known_hosts: 'git.example' }, 400],
    ['a key for an https address', 'https://git.example/a.git', { kind: 'ssh_key', known_hosts: knownHosts }, 409],
    ['a token for an ssh address', 'git@git.example:a.git', { kind: 'token', token: 'x' }, 409],
    ['a token for an http address', 'http://git.example/a.git', { kind: 'token', token: 'x' }, 409],
    ['a token for an app without a repository', '', { kind: 'token', token: 'x' }, 409],
  ])('%s is refused', async (_, url, body, status) => {
    const app = await appWith(url)
    expect((await call('PUT', `${app.path}/git-credential`, body)).status).toBe(status)
  })

  it('cannot be read or deleted by another project', async () => {
    const app = await appWith('https://git.example/a.git')
    await call('PUT', `${app.path}/git-credential`, { kind: 'token', token: 'x' })
    const stranger = await owner(api)
    for (const method of ['GET', 'DELETE'] as const)
      expect((await call(method, `${app.path}/git-credential`, undefined, stranger.token)).status).toBe(404)
    expect((await call('GET', `${app.path}/deliveries`, undefined, stranger.token)).status).toBe(404)
  })
})

describe('the git branch of an app', () => {
  const signed = async (name: string, branch: string, commit: string) => {
    const secret = (await call('GET', `/v1/apps/${name}/secret`)).body['scm_webhook_secret']
    const raw = Buffer.from(JSON.stringify(push(1, commit, undefined, `refs/heads/${branch}`)))
    const id = newId()
    const digest = createHmac('sha256', secret).update(raw).digest('hex')
    const headers = { 'x-gitea-event': 'push', 'x-gitea-delivery': id, 'x-gitea-signature': digest }
    return { id, reply: (await deliverToApp(api, name, raw, headers)).body }
  }

  it('is deployed instead of the default branch; the list of deliveries says why pushes to other branches were ignored', async () => {
    const app = await appWith('https://git.example/a.git', { git_branch: 'production' })
    const main = await signed(app.name, 'main', commitOf(1))
    expect(main.reply).toEqual({ status: 'ignored' })
    const production = await signed(app.name, 'production', commitOf(2))
    expect(production.reply).toEqual({ status: 'applied' })
    const again = await signed(app.name, 'production', commitOf(2))
    const [deployment, ...others] = await world.deploymentsOf(person, app.name)
    expect(others).toEqual([])
    expect(deployment).toMatchObject({ git_branch: 'production', git_commit_hash: commitOf(2) })
    const entry = (id: string, status: string, reason: unknown, branch: string, n: number) => ({
      id,
      event: 'push',
      status,
      reason,
      branch,
      commit_hash: commitOf(n),
      received_at: expect.any(String),
    })
    expect((await call('GET', `${app.path}/deliveries`)).body).toEqual([
      entry(again.id, 'ignored', 'This commit was already processed.', 'production', 2),
      entry(production.id, 'applied', '', 'production', 2),
      entry(main.id, 'ignored', 'The app follows the branch production.', 'main', 1),
    ])
  })

  it('is also used by a manual deploy', async () => {
    const app = await appWith('https://git.example/a.git', { git_branch: 'release/2.0', git_submodules: true })
    await call('POST', `${app.path}/deploy`, {})
    const build = statement<object>(
      'test.scm.build',
      `SELECT git_branch AS branch, git_submodules AS submodules FROM build WHERE app_id = $1`,
    )
    expect(await api.deps.db.one(build, [app.id])).toEqual({ branch: 'release/2.0', submodules: true })
    const changed = await call('PATCH', app.path, { port: 8080, git_branch: '', git_submodules: false })
    expect(changed.body).toMatchObject({ git_branch: '', git_submodules: false })
  })

  test.each(['-x', 'a..b', 'a b', '/a', 'a/', 'a.lock', 'a~1', '@', '.a', 'a:b', 'a\\b'])(
    'cannot be set to the invalid name "%s"',
    async name => {
      const body = { name: `app-${newId().slice(-8)}`, git_url: '', git_branch: name }
      const refused = await call('POST', '/v1/apps', body)
      expect([refused.status, refused.body['details']?.[0]?.field]).toEqual([400, 'git_branch'])
    },
  )

  it('deliveries of the GitHub integration are listed only for the apps of their repository', async () => {
    const installation = await world.install(person)
    const app = await world.appFor(person, installation)
    const stranger = await owner(api)
    const copycat = await world.appFor(stranger, installation)
    const sent = { id: newId(), event: 'push', payload: push(app.repoId, commitOf(3), 1_800_000_000) }
    expect((await deliver(api, sent)).body).toEqual({ status: 'applied' })
    expect((await call('GET', `/v1/apps/${app.name}/deliveries`)).body).toMatchObject([
      { id: sent.id, status: 'applied' },
    ])
    const foreign = { id: newId(), event: 'push', payload: push(copycat.repoId, commitOf(4), 1_800_000_000) }
    expect((await deliver(api, foreign)).body).toEqual({ status: 'ignored' })
    expect((await call('GET', `/v1/apps/${copycat.name}/deliveries`, undefined, stranger.token)).body).toEqual([])
  })
})

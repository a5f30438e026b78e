// Not repeated on the distribution's PostgreSQL: this file tests builds in real VMs, not the database.
/**
 * From a git push to a served page: a real Git repository over HTTP, a signed webhook, a build in a real VM, a rollout.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { agentConfig } from '../../src/agent/base/config.ts'
import { runsAll } from '../support/all-examples.ts'
import { sshGitHost } from '../support/agent/build-ssh.ts'
import { type GitServer, gitServer } from '../support/agent/build.ts'
import { driverCases } from '../support/agent/hypervisor.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { viaGateway } from '../support/http.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

interface Log {
  readonly body: { readonly source: string; readonly lines: readonly { readonly line: string }[] }
}

const [gvisor] = (await driverCases()).filter(({ spec, skip }) => spec.hypervisor === 'gvisor' && !skip)
/** This machine's cache, which records that gVisor works here. Without the record, an agent starts gVisor 20 times. */
const { cacheDir } = agentConfig({ dataDir: '/', hostName: 'test' })
/**
 * Hypervisor of build VMs: gVisor if possible, because emulation takes more CPU time. src/agent/build/builds.test.ts
 * covers builds under emulation.
 */
const guests = gvisor?.config ?? { hypervisor: 'qemu', network: 'user' }
const needed = [...(gvisor ? [] : ['qemu-system-x86_64']), 'umoci', 'mke2fs', 'git']
const present = await Promise.all(needed.map(hasProgram))
const missing = needed.filter((_, n) => !present[n])
const reason = missing.length > 0 ? `skipped, not installed: ${missing.join(', ')}` : ''

const hasSshd = await hasProgram('sshd')
/**
 * Only `npm run test:all` connects to a git host over SSH. In `npm test`, src/control/scm/sources.test.ts covers the
 * keys of apps, and the first test below builds what was pushed over HTTP.
 */
const itOverSsh = it.skipIf(!hasSshd || !runsAll)
const sshNote = hasSshd ? '' : ' (skipped, not installed: openssh-server)'

describe.skipIf(missing.length > 0)(`a git push ${reason}`, { timeout: 240_000 }, () => {
  let system: TestSystem
  let git: GitServer
  let user: TestUser
  let failure = ''
  beforeAll(async () => {
    git = await gitServer()
    system = await testSystem({ agents: 0, config: { privateGitHosts: true } })
    const agent = await system.addAgent({ ...guests, cacheDir })
    await agent.probed
    user = await system.user()
  }, 120_000)
  afterAll(async () => {
    await system[Symbol.asyncDispose]()
    await git[Symbol.asyncDispose]()
  })

  const answer = async (host: string) => {
    const { status, body } = await viaGateway(system.gateway.port, host)
    return `${status} ${body}`
  }
  const hook = async (app: string) => {
    const { body } = await user.get(`/v1/apps/${app}/secret`)
    const { body: raw, headers } = await git.delivery(body.scm_webhook_secret)
    const sent = await fetch(`${system.control.url}/v1/webhooks/scm/${app}`, { method: 'POST', headers, body: raw })
    return sent.json()
  }
  const newest = async (app: string) => (await user.get(`/v1/apps/${app}/deployments`)).body[0]

  it('is built in a VM and served through the gateway; the next push replaces it', async () => {
    const created = await user.post('/v1/apps', { name: 'site', git_url: git.url, drain_timeout: 0 })
    expect(created.status).toBe(200)
    const first = await git.push({ 'index.html': 'the first page' }, { message: 'First page' })
    expect(await hook('site')).toEqual({ status: 'applied' })
    expect(await newest('site')).toMatchObject({ status: 'building', trigger_source: 'push' })
    await until(async () => (await answer(created.body.hostname)) === '200 the first page', {
      what: 'the first page to be served',
      timeoutMs: 120_000,
      everyMs: 100,
    })
    const live = await newest('site')
    expect(live).toMatchObject({
      git_branch: 'main',
      git_commit_hash: first,
      git_commit_message: 'First page',
      trigger_source: 'push',
      image_tag: expect.stringMatching(/^sha256-[0-9a-f]{64}$/),
    })

    const end = new AbortController()
    const lines: string[] = []
    for await (const { event, data } of user.events(
      `/v1/apps/site/deployments/${live.job_id}/logs?tail=1000`,
      end.signal,
    )) {
      if (event === 'log' && data.stream === 'build') lines.push(data.line)
      if (lines.some(line => line.startsWith('built oci:'))) break
    }
    end.abort()
    expect(lines).toContain('found a static site')

    const second = await git.push({ 'index.html': 'the second page' })
    expect(await hook('site')).toEqual({ status: 'applied' })
    expect(await hook('site')).toEqual({ status: 'ignored' })
    await until(async () => (await answer(created.body.hostname)) === '200 the second page', {
      what: 'the second page to be served',
      timeoutMs: 120_000,
      everyMs: 100,
    })
    expect(await newest('site')).toMatchObject({ git_commit_hash: second })
  })

  it('of a source that cannot be built fails with the reason, and the previous deployment keeps serving', async () => {
    const { body: app } = await user.get('/v1/apps/site')
    await git.push({ 'README.md': 'no way' })
    const { body } = await user.post('/v1/apps/site/deploy', {})
    expect(body.status).toBe('building')
    const failed = await until(
      async () => {
        const { body: observed } = await user.get(`/v1/apps/site/deployments/${body.job_id}`)
        return observed.status === 'failed' ? observed : undefined
      },
      { what: 'the deployment to fail', timeoutMs: 60_000, everyMs: 100 },
    )
    expect(failed.error_message).toContain('Add a Dockerfile')
    expect(await answer(app.hostname)).toBe('200 the second page')
    failure = body.job_id
  })

  it('has a build log, which only its tenant can read, by build, deployment or job id', async () => {
    const listed = await user.get('/v1/apps/site/builds')
    expect(listed.body.map((one: { status: string }) => one.status)).toEqual(['failed', 'succeeded', 'succeeded'])
    const [failed] = listed.body
    expect(failed).toMatchObject({ job_id: failure, git_branch: 'main', error: expect.stringContaining('Dockerfile') })
    const logOf = (name: string, query = '') => user.get(`/v1/apps/site/builds/${name}/log${query}`)
    const kept = await until(async () => ((one: Log) => one.body.source === 'kept' && one)(await logOf(failed.id)), {
      what: 'the log to be stored',
      timeoutMs: 30_000,
      everyMs: 50,
    })
    expect(kept.body).toMatchObject({ build_id: failed.id, deployment_id: failed.deployment_id, status: 'failed' })
    expect(kept.body.lines.map(({ line }) => line)).toEqual([
      ...[expect.stringMatching(/^fetching /), expect.stringMatching(/^commit /)],
      expect.stringMatching(/^fetching the source took [\d.]+ s$/),
      expect.stringContaining('Add a Dockerfile'),
    ])
    for (const name of [failed.deployment_id, failed.job_id]) expect((await logOf(name)).body).toEqual(kept.body)
    expect((await logOf(failed.id, '?tail=1')).body.lines).toEqual(kept.body.lines.slice(-1))
    const stranger = await system.user()
    for (const path of [`builds`, `builds/${failed.id}/log`])
      expect((await stranger.get(`/v1/apps/site/${path}`)).status).toBe(404)
  })

  itOverSsh(`to a private repository over SSH is built with the app's own key${sshNote}`, async () => {
    await using host = await sshGitHost()
    const tree = await host.create('private')
    await tree.push({ 'index.html': 'the wrong branch' })
    const commit = await tree.push({ 'index.html': 'over ssh' }, { branch: 'live' })
    const body = { name: 'private', git_url: host.urlOf('private'), git_branch: 'live', drain_timeout: 0 }
    const { body: app } = await user.post('/v1/apps', body)
    const credential = { kind: 'ssh_key', known_hosts: host.knownHosts }
    const { body: made } = await user.call('PUT', '/v1/apps/private/git-credential', credential)
    const refused = await user.post('/v1/apps/private/deploy', {})
    const statusOf = async (job: string) => (await user.get(`/v1/apps/private/deployments/${job}`)).body
    await until(async () => (await statusOf(refused.body.job_id)).error_message.includes('deploy key'), {
      what: 'the git host to reject the unknown key',
      timeoutMs: 60_000,
      everyMs: 100,
    })
    await host.allow(made.public_key)
    await user.post('/v1/apps/private/deploy', {})
    await until(async () => (await answer(app.hostname)) === '200 over ssh', {
      what: 'the page to be served',
      timeoutMs: 120_000,
      everyMs: 100,
    })
    expect(await newest('private')).toMatchObject({ git_branch: 'live', git_commit_hash: commit })
    await user.delete('/v1/apps/private')
    const left = { name: 'test.credentials', text: `SELECT 1 AS one FROM git_credential` }
    await until(async () => (await system.database.db.rows(left)).length === 0, {
      what: 'the credential to be deleted with its app',
      timeoutMs: 60_000,
      everyMs: 100,
    })
  })

  it('is no longer built if the deployment is cancelled or the app is deleted', async () => {
    await git.push({ 'index.html': 'never seen' })
    const { body } = await user.post('/v1/apps/site/deploy', {})
    const cancelled = await user.post(`/v1/apps/site/deployments/${body.job_id}/cancel`)
    expect(cancelled.status).toBe(200)
    const statusIs = (job: string, status: string) =>
      until(async () => (await user.get(`/v1/apps/site/deployments/${job}`)).body.status === status, {
        what: status,
        timeoutMs: 60_000,
        everyMs: 100,
      })
    await statusIs(body.job_id, 'cancelled')
    await user.post('/v1/apps/site/deploy', {})
    await user.delete('/v1/apps/site')
    const left = {
      name: 'test.left',
      text: `SELECT 1 AS one FROM app UNION ALL SELECT 1 FROM build UNION ALL SELECT 1 FROM host WHERE used_vcpus > 0`,
    }
    await until(async () => (await system.database.db.rows(left)).length === 0, {
      what: 'all rows and reservations to be removed',
      timeoutMs: 60_000,
      everyMs: 100,
    })
  })
})

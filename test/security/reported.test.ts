// Not repeated on the distribution's PostgreSQL: this file tests requests, not the database.
/**
 * Regression tests for faults that reviewers demonstrated on a running system, using only HTTP.
 * `MOTE_TARGET_URL=http://... npx vitest run test/security/reported.test.ts` runs them against another system, such as
 * an older version with `MOTE_CAPTCHA=off` and the simulated hypervisor. docs/notes/reported-faults.md lists all
 * faults.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { createHmac, randomUUID } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Api, api } from '../support/api.ts'
import { globalHeaderBomb } from '../support/lib/archive.ts'
import { testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

const password = 'quartz-otter-lantern-42'
const stack = new AsyncDisposableStack()
let url = process.env['MOTE_TARGET_URL'] ?? ''
beforeAll(async () => {
  if (url === '') url = stack.use(await testSystem()).control.url
  // The first account of a system becomes its administrator, so the tests use later ones.
  await person()
})
afterAll(() => stack.disposeAsync())

const unique = (what: string) => `${what}-${randomUUID().slice(-12)}`

async function person(email = `${unique('reported')}@example.com`): Promise<Api> {
  const account = { email, password, captcha_id: '', captcha_answer: '' }
  expect((await api(url).post('/v1/auth/register', account)).status).toBe(200)
  const { body } = await api(url).post('/v1/auth/login', { email, password })
  return api(url, body.token)
}

async function app(user: Api, name = unique('app'), more: object = {}): Promise<{ id: string; name: string }> {
  const { status, body } = await user.post('/v1/apps', { name, git_url: '', ...more })
  expect(status).toBe(200)
  return { id: body.id, name }
}

/** Sends raw bytes, and returns the HTTP status of the response. */
async function raw(text: string): Promise<number> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.write(text)
  const [data] = await once(socket, 'data')
  socket.destroy()
  return Number(String(data).split(' ')[1])
}

describe('one tenant cannot stop the API for the others', () => {
  it('an uploaded archive that takes quadratic time to parse is rejected', async () => {
    const user = await person()
    const { name } = await app(user)
    const { status } = await fetch(`${url}/v1/apps/${name}/source`, {
      method: 'PUT',
      body: gzipSync(globalHeaderBomb(20_000, 5)),
      headers: { authorization: `Bearer ${user.token}`, 'content-type': 'application/gzip' },
    })
    expect(status).toBe(400)
  })

  it('an oversized webhook request without a credential is rejected before its signature is computed', async () => {
    const { status } = await fetch(`${url}/v1/webhooks/scm/web`, {
      method: 'POST',
      body: Buffer.alloc(2 << 20, ' '),
      headers: { 'content-type': 'application/json', 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` },
    })
    expect(status).toBe(413)
  })
})

describe("one tenant cannot disable or take over another tenant's resources", () => {
  const ping = Buffer.from(JSON.stringify({ zen: 'x', repository: { id: 1 } }))
  const send = async (at: string, secret: string) => {
    const signature = `sha256=${createHmac('sha256', secret).update(ping).digest('hex')}`
    const headers = { 'content-type': 'application/json', 'x-github-event': 'ping', 'x-hub-signature-256': signature }
    return (await fetch(url + at, { method: 'POST', body: ping, headers })).status
  }

  it('a webhook works although other tenants have 201 older apps with the same name', { timeout: 60_000 }, async () => {
    const name = unique('web')
    const git = { git_url: 'https://git.example/team/app.git' }
    for (let account = 0; account < 3; account++) {
      const stranger = await person()
      for (let n = 0; n < 67; n++) {
        const made = await stranger.post('/v1/projects', { name: unique('p') })
        expect(made.status).toBe(200)
        const path = `/v1/apps?project=${made.body.tenant_id}`
        expect((await stranger.post(path, { name, ...git })).status).toBe(200)
      }
    }
    const user = await person()
    const { id } = await app(user, name, git)
    const { body } = await user.get(`/v1/apps/${name}/secret`)
    const at = body.webhook_url === undefined ? `/v1/webhooks/scm/${name}` : new URL(body.webhook_url).pathname
    expect([await send(at, body.scm_webhook_secret), id]).toEqual([200, id])
  })

  it('the webhook of an app without a repository accepts signed requests', async () => {
    const user = await person()
    const { name } = await app(user)
    const { body } = await user.get(`/v1/apps/${name}/secret`)
    expect(await send(`/v1/webhooks/scm/${name}`, body.scm_webhook_secret)).toBe(200)
  })

  it('registering an invited e-mail address does not accept the invitation', async () => {
    const owner = await person()
    const project = (await owner.get('/v1/projects')).body[0].tenant_id
    const email = `${unique('invited')}@example.com`
    const { body } = await owner.post(`/v1/projects/${project}/members`, { email, role: 'admin' })
    const squatter = await person(email)
    await squatter.post(`/v1/invitations/${body.id}/accept`, {})
    expect((await squatter.get('/v1/projects')).body).toHaveLength(1)
  })

  it("an image built for another tenant's app cannot be deployed by its name", async () => {
    const [victim, stranger] = [await person(), await person()]
    const built = await app(victim)
    const { name } = await app(stranger)
    const deploy = (image: string) => stranger.post(`/v1/apps/${name}/deploy`, { image })
    for (const image of [`oci:app-${built.id}`, `oci:app-${built.id}:latest`])
      expect((await deploy(image)).status).toBe(400)
  })

  it('an access token cannot delete its account without a password', async () => {
    const user = await person()
    const { body } = await user.post('/v1/auth/tokens', { name: 'ci', scopes: ['admin'] })
    expect((await user.as(body.token).delete('/v1/auth/me')).status).toBe(403)
    expect((await user.get('/v1/auth/me')).status).toBe(200)
  })
})

describe('requests', () => {
  it.each(['\u001b]0;owned\u0007', 'a\u001b[2J', 'a\u009b2Jb', 'a\u202eb'])(
    'that set a name to %j are rejected',
    async name => {
      const user = await person()
      expect((await user.call('PUT', '/v1/auth/me', { first_name: name })).status).toBe(400)
      expect((await user.post('/v1/projects', { name })).status).toBe(400)
    },
  )

  it('for a captcha as text need a proof of work, because programs can answer the captcha', async () => {
    const { body } = await api(url).get('/v1/auth/captcha?format=text')
    expect(body.captcha_work).toEqual({ iterations: expect.any(Number), bits: expect.any(Number) })
  })

  it('that a proxy on the same machine forwards cannot call the endpoint for page servers', async () => {
    const through = { 'x-forwarded-for': '192.0.2.1' }
    expect((await api(url).post('/re-attach', { node_id: 1 }, through)).status).toBe(403)
  })

  it('with two Host headers are rejected', async () => {
    expect(await raw('GET /v1/health/alive HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n')).toBe(400)
  })

  it('with the method QUERY get 405, not a server error', async () => {
    expect(await raw('QUERY /v1/apps HTTP/1.1\r\nHost: a.example\r\n\r\n')).toBe(405)
  })
})

describe('a change that was answered with 200 takes effect', () => {
  it('when the change is a rollback to a deployment that is being stopped', { timeout: 60_000 }, async () => {
    const user = await person()
    const { name } = await app(user, unique('app'), { drain_timeout: 0 })
    const deploy = async (image: string) => {
      const { body } = await user.post(`/v1/apps/${name}/deploy`, { image })
      return { job: String(body.job_id), deployment: String(body.deployment_id) }
    }
    const status = async (job: string) => (await user.get(`/v1/apps/${name}/deployments/${job}`)).body.status
    const isRunning = (job: string) => async () => (await status(job)) === 'running'
    const asked = { timeoutMs: 20_000, everyMs: 2 }
    const old = await deploy('example/app:1')
    await until(isRunning(old.job), { ...asked, what: 'the first version runs' })
    const late = await deploy('example/app:2')
    await until(isRunning(late.job), { ...asked, what: 'the second version runs' })
    const { status: answer } = await user.post(`/v1/apps/${name}/deployments/${old.deployment}/activate`)
    if (answer === 409) return
    expect(answer).toBe(200)
    const active = async () => (await user.get(`/v1/apps/${name}`)).body.active_deployment_id
    await until(async () => (await active()) === old.deployment, { ...asked, what: 'the first version is active' })
  })
})

it('the audit log records the creation of a cloned volume under its own id', { timeout: 60_000 }, async () => {
  const user = await person()
  const { id: appId, name } = await app(user)
  const { id } = (await user.post('/v1/volumes', { name: unique('v'), size_mib: 32 })).body
  await user.post(`/v1/apps/${appId}/volumes/attach`, { volume_id: id })
  await user.post(`/v1/apps/${name}/deploy`, { image: 'example/app:1' })
  const asked = { timeoutMs: 20_000 }
  const volumes = async () => (await user.get('/v1/volumes')).body
  await until(async () => (await volumes())[0]?.status === 'ready', { ...asked, what: 'the volume is on a host' })
  await user.post(`/v1/volumes/${id}/snapshots`, { name: 'first' })
  const snapshots = async () => (await user.get(`/v1/volumes/${id}/snapshots`)).body
  await until(async () => (await snapshots())[0]?.status === 'ready', { ...asked, what: 'the snapshot' })
  const clone = await user.post(`/v1/volumes/${id}/clone`, { name: unique('v'), snapshot_name: 'first' })
  expect(clone.status).toBe(200)
  const { items } = (await user.get('/v1/audit-logs?action=volume.create')).body
  expect(items.map((row: { resource_id: string }) => row.resource_id)).toContain(clone.body.id)
})

/** Tests files of an app: what the API stores and returns, and what a deployment's VMs get. */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestSystem, type TestUser, testSystem } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'

let system: TestSystem
let user: TestUser
beforeAll(async () => {
  system = await testSystem({ agents: 0 })
  await system.addAgent({ fake: { imageMs: 0, bootMs: 5, healthyMs: 0, stopMs: 0, logEveryMs: 0 } })
  user = await system.user()
  await user.post('/v1/apps', { name: 'shop', git_url: '', drain_timeout: 0 })
  await user.call('PUT', '/v1/apps/shop/env/TOKEN', { value: 'a token' })
})
afterAll(async () => system[Symbol.asyncDispose]())

const base64 = (text: string) => Buffer.from(text).toString('base64')
const put = (body: object, app = 'shop') => user.call('PUT', `/v1/apps/${app}/files`, body)
const remove = (path: string) => user.call('DELETE', `/v1/apps/shop/files?path=${encodeURIComponent(path)}`)
const list = async () => (await user.get('/v1/apps/shop/files')).body
const contentOf = async (path: string) => (await user.get(`/v1/apps/shop/files/content?path=${path}`)).body.content
const deploy = async (app = 'shop') => {
  const { status, body } = await user.post(`/v1/apps/${app}/deploy`, { image: 'oci:hello' })
  if (status !== 200) return { status, body }
  await until(async () => (await user.get(`/v1/apps/${app}/deployments/${body.job_id}`)).body.status === 'running', {
    what: `${app} to run`,
  })
  return { status, body }
}
/** Returns the files in the desired state that the host received for a deployment's VM. */
const givenTo = async (deploymentId: string) => {
  const [host = ''] = (await readdir(system.dir)).filter(name => name.startsWith('host-'))
  const dir = join(system.dir, host, 'vms')
  const wishes = await Promise.all(
    (await readdir(dir)).map(async vm =>
      JSON.parse(await readFile(join(dir, vm, 'wish.json'), 'utf8').catch(() => '{}')),
    ),
  )
  return wishes.find(({ spec }) => spec?.deploymentId === deploymentId)?.spec.files
}

describe('the files of an app', () => {
  it('are returned by the API unless they are secrets, and are stored encrypted', async () => {
    const before = (await user.get('/v1/apps/shop')).body.settings_changed_at
    expect((await put({ path: '/etc/shop/a b.conf', content: base64('level = 1\n') })).body).toEqual({ status: 'set' })
    await put({ path: '/run/key', content: base64('the secret key'), mode: '0400', secret: true })
    await put({ path: '/run/token', variable: 'TOKEN' })
    const sha256 = createHash('sha256').update('level = 1\n').digest('hex')
    expect(await list()).toMatchObject([
      { path: '/etc/shop/a b.conf', mode: '0644', secret: false, variable: null, size_bytes: 10, sha256 },
      { path: '/run/key', mode: '0400', secret: true, variable: null, size_bytes: 14, sha256: null },
      { path: '/run/token', mode: '0644', secret: true, variable: 'TOKEN', size_bytes: 0, sha256: null },
    ])
    expect(await contentOf('/etc/shop/a b.conf')).toBe(base64('level = 1\n'))
    expect([await contentOf('/run/key'), await contentOf('/run/token')]).toEqual([null, null])
    expect(Date.parse((await user.get('/v1/apps/shop')).body.settings_changed_at)).toBeGreaterThan(Date.parse(before))
    const rows = await system.database.db.rows<{ content: Buffer | null }>({
      name: 'test.files',
      text: 'SELECT content FROM app_file',
    })
    const stored = rows.map(({ content }) => content?.toString('latin1') ?? '').join()
    expect(stored).not.toContain(base64('the secret key'))
  })

  it.each([
    [{ path: 'etc/a', content: '' }, 'path'],
    [{ path: '/etc/../a', content: '' }, 'path'],
    [{ path: '/etc//a', content: '' }, 'path'],
    [{ path: '/etc/a/', content: '' }, 'path'],
    [{ path: '/proc/sys/a', content: '' }, 'path'],
    [{ path: '/dev', content: '' }, 'path'],
    [{ path: '/sys/a', content: '' }, 'path'],
    [{ path: '/etc/shop/a b.conf/c', content: '' }, 'path'],
    [{ path: '/a', content: 'no base64' }, 'content'],
    [{ path: '/a' }, 'content'],
    [{ path: '/a', content: '', variable: 'TOKEN' }, 'content'],
    [{ path: '/a', variable: 'NONE' }, 'variable'],
    [{ path: '/a', content: '', mode: '4755' }, 'mode'],
  ])('%j is refused', async (body, field) => {
    expect(await put(body)).toMatchObject({ status: 400, body: { details: [{ field }] } })
    expect(await list()).toHaveLength(3)
  })

  it('have at most 512 KiB in total', async () => {
    await put({ path: '/big', content: Buffer.alloc(500 << 10).toString('base64') })
    expect(await put({ path: '/bigger', content: Buffer.alloc(20 << 10).toString('base64') })).toMatchObject({
      status: 400,
      body: { details: [{ field: 'content' }] },
    })
    await remove('/big')
  })

  it('reach the VMs of the next deployment and of its workers, with the contents at the time of the deployment', async () => {
    const { body } = await deploy()
    const files = [
      { path: '/etc/shop/a b.conf', mode: 0o644, data: base64('level = 1\n') },
      { path: '/run/key', mode: 0o400, data: base64('the secret key') },
      { path: '/run/token', mode: 0o644, data: base64('a token') },
    ]
    expect(await givenTo(body.deployment_id)).toEqual(files)
    await user.post('/v1/apps', { name: 'shop-mails', git_url: '', kind: 'worker', env_of: 'shop' })
    expect((await put({ path: '/a', content: '' }, 'shop-mails')).status).toBe(409)
    expect(await givenTo((await deploy('shop-mails')).body.deployment_id)).toEqual(files)
    await put({ path: '/etc/shop/a b.conf', content: base64('level = 2\n') })
    expect(await givenTo(body.deployment_id)).toEqual(files)
  })

  it('are copied to a fork, together with the variables whose values they contain', async () => {
    await user.call('PUT', '/v1/apps/shop/env/LEVEL', { value: 'info', secret: false })
    const { body } = await deploy()
    const at = `/v1/apps/shop/deployments/${body.job_id}`
    await user.post(`${at}/snapshot`, { snapshot_name: 'now' })
    const fork = async () => user.post(`${at}/snapshot/now/fork`, { app_name: 'twin' })
    let forked = await fork()
    await until(async () => forked.status === 200 || (forked = await fork()).status === 200, {
      what: 'the snapshot to be ready',
    })
    const files = await givenTo(body.deployment_id)
    expect(files).toHaveLength(3)
    await until(async () => (await givenTo(forked.body.deployment_id)) !== undefined, { what: 'a VM of the fork' })
    expect(await givenTo(forked.body.deployment_id)).toEqual(files)
    expect((await user.get('/v1/apps/twin/env')).body).toMatchObject([
      { name: 'LEVEL', secret: false, value: 'info' },
      { name: 'TOKEN', secret: true, value: null },
    ])
    expect((await user.get('/v1/apps/twin/files')).body).toMatchObject([
      { path: '/etc/shop/a b.conf', variable: null },
      { path: '/run/key', mode: '0400', secret: true },
      { path: '/run/token', variable: 'TOKEN' },
    ])
    // A change of the original app's variable does not change the fork's variable.
    await user.call('PUT', '/v1/apps/shop/env/TOKEN', { value: 'another token' })
    expect(await givenTo((await deploy('twin')).body.deployment_id)).toEqual(files)
  })

  it('make the next deployment fail at once if their content is the value of a variable that was removed', async () => {
    await user.call('DELETE', '/v1/apps/shop/env/TOKEN')
    expect(await deploy()).toMatchObject({
      status: 400,
      body: { error: expect.stringContaining('/run/token has the value of TOKEN, which the app does not have') },
    })
    expect((await remove('/run/token')).body).toEqual({ status: 'deleted' })
    expect((await remove('/run/token')).status).toBe(404)
    expect((await deploy()).status).toBe(200)
  })
})

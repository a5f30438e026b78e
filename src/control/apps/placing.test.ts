/** Tests through the API on which hosts an app runs, and how its versions replace each other. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestSystem, type TestUser, testSystem } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'

const fake = { imageMs: 0, bootMs: 5, healthyMs: 0, stopMs: 0, logEveryMs: 0 }
let system: TestSystem
let operator: TestUser
let user: TestUser
const hosts: { id: string; name: string; labels: Record<string, string> }[] = []
beforeAll(async () => {
  system = await testSystem({ agents: 0 })
  await system.addAgent({ fake, labels: { region: 'eu', secret: 'rack-7' } })
  await system.addAgent({ fake })
  operator = await system.user()
  user = await system.user()
  hosts.push(...(await operator.get('/v1/admin/hosts')).body)
})
afterAll(async () => system[Symbol.asyncDispose]())

const region = (value: string) => hosts.find(host => host.labels['region'] === value)!
const create = (name: string, body: object) => user.post('/v1/apps', { name, git_url: '', ...body })
const deploy = (name: string, body: object = {}) =>
  user.post(`/v1/apps/${name}/deploy`, { image: 'oci:hello', ...body })
const hostOf = async (name: string, jobId: string) => {
  const live = async () => (await user.get(`/v1/apps/${name}/deployments/${jobId}`)).body
  await until(async () => (await live()).status === 'running', { what: `${name} to run` })
  return (await live()).host_id
}

describe('host labels', () => {
  it('come from the agent and from operators, whose labels take precedence', async () => {
    const [plain] = hosts.filter(host => Object.keys(host.labels).length === 0)
    const set = await operator.call('PUT', `/v1/admin/hosts/${plain!.id}/labels`, {
      labels: { region: 'us', disk: 'x' },
    })
    expect(set.body).toMatchObject({ labels: { region: 'us', disk: 'x' }, agent_labels: {} })
    const eu = region('eu')
    const path = `/v1/admin/hosts/${eu.name}/labels`
    expect((await operator.call('PUT', path, { labels: { region: 'mars' } })).body).toMatchObject({
      labels: { region: 'mars', secret: 'rack-7' },
      agent_labels: { region: 'eu', secret: 'rack-7' },
    })
    expect((await operator.call('PUT', path, { labels: {} })).body.labels).toEqual(eu.labels)
    hosts.splice(0, 2, ...(await operator.get('/v1/admin/hosts')).body)
  })

  it('can be set only by operators, and invalid labels are refused', async () => {
    const path = `/v1/admin/hosts/${hosts[0]!.id}/labels`
    expect((await user.call('PUT', path, { labels: {} })).status).toBe(403)
    expect(await operator.call('PUT', path, { labels: { 'A B': 'c' } })).toMatchObject({
      status: 400,
      body: { details: [{ field: 'labels' }] },
    })
    expect((await operator.call('PUT', '/v1/admin/hosts/none/labels', { labels: {} })).status).toBe(404)
  })

  it('are visible to users only if the operator makes them public', async () => {
    expect((await user.get('/v1/host-labels')).body).toEqual([{ name: 'region', values: ['eu', 'us'] }])
    expect((await user.get('/v1/admin/hosts')).status).toBe(403)
  })
})

describe('an app', () => {
  it.each(['eu', 'us'])('runs all its VMs in the region %s if it requires that', async name => {
    const app = `in-${name}`
    const made = await create(app, { hosts: { require: { region: name } }, desired_replicas: 3, max_replicas: 3 })
    expect(made.body.hosts).toEqual({ require: { region: name }, prefer: {} })
    expect((await user.get('/v1/apps')).body).toContainEqual((await user.get(`/v1/apps/${app}`)).body)
    const { body } = await deploy(app)
    expect(await hostOf(app, body.job_id)).toBe(region(name).id)
    const rows = await system.database.db.rows<{ host: string }>({
      name: `test.hostsOfVms.${name}`,
      text: `SELECT DISTINCT v.host_id AS host FROM vm v JOIN app a ON a.id = v.app_id WHERE a.name = '${app}'`,
    })
    expect(rows).toEqual([{ host: region(name).id }])
  })

  it('passes its required and preferred labels on to a fork', async () => {
    const { job_id } = (await user.get('/v1/apps/in-eu/deployments')).body[0]
    const at = `/v1/apps/in-eu/deployments/${job_id}/snapshot`
    await user.post(at, { snapshot_name: 'now' })
    const fork = () => user.post(`${at}/now/fork`, { app_name: 'twin' })
    await until(async () => (await fork()).status === 200, { what: 'the snapshot to be ready' })
    expect((await user.get('/v1/apps/twin')).body.hosts).toEqual({ require: { region: 'eu' }, prefer: {} })
  })

  it('is refused at once if no host has the required labels, and the error lists the public labels', async () => {
    await create('far', { hosts: { require: { region: 'mars' } } })
    const { status, body } = await deploy('far')
    expect([status, body.code]).toEqual([409, 'invalid_state'])
    expect(body.error).toBe('No host has region=mars. Labels that hosts have: region (eu, us).')
    const later = await user.call('PATCH', '/v1/apps/far', { port: 8080, hosts: { require: { region: 'eu' } } })
    expect(later.body.settings_changed_at).not.toBeNull()
    expect((await deploy('far')).status).toBe(200)
  })

  it('cannot reveal labels that are not public', async () => {
    const answers = []
    for (const value of ['rack-7', 'rack-8']) {
      await create(`spy-${value}`, { hosts: { require: { secret: value } } })
      const dry = await deploy(`spy-${value}`, { dry_run: true })
      const real = await deploy(`spy-${value}`)
      answers.push(JSON.stringify([dry.status, dry.body.error, real.status, real.body.error]).replaceAll(value, 'V'))
    }
    expect(answers[0]).toContain('No host has secret=V')
    expect(answers[1]).toBe(answers[0])
  })

  it('runs on a host with a preferred label if that host has free capacity', async () => {
    await create('near', { hosts: { prefer: { region: 'us', zone: 'none' } }, desired_replicas: 2, max_replicas: 2 })
    const { body } = await deploy('near')
    expect(await hostOf('near', body.job_id)).toBe(region('us').id)
  })

  it('cannot use the strategy `one-at-a-time` together with a canary', async () => {
    const both = { strategy: 'one-at-a-time', canary: { percent: 10 } }
    expect(await create('both', both)).toMatchObject({ status: 400, body: { details: [{ field: 'strategy' }] } })
    await create('one', { strategy: 'one-at-a-time' })
    const change = await user.call('PATCH', '/v1/apps/one', { port: 8080, canary: { percent: 10 } })
    expect(change).toMatchObject({ status: 400, body: { details: [{ field: 'strategy' }] } })
    const now = (await user.get('/v1/apps/one')).body
    expect(now).toMatchObject({ strategy: 'one-at-a-time', canary: null })
    expect((await user.get('/v1/apps')).body).toContainEqual(now)
  })

  it('with the strategy `one-at-a-time` can replace its version even if the plan has room for only one version', async () => {
    const poor = await system.user()
    const { id } = (await poor.post('/v1/apps', { name: 'one', git_url: '', strategy: 'one-at-a-time' })).body
    const free = `UPDATE project SET plan = 'free' WHERE id = (SELECT project_id FROM app WHERE id = '${id}')`
    await system.database.db.run({ name: 'test.plan', text: free })
    const all = { image: 'oci:hello', memory_mib: 4096 }
    const { body } = await poor.post('/v1/apps/one/deploy', all)
    const first = async () => (await poor.get(`/v1/apps/one/deployments/${body.job_id}`)).body.status
    await until(async () => (await first()) === 'running', { what: 'the app to run' })
    const next = await poor.post('/v1/apps/one/deploy', all)
    expect([next.status, next.body.message]).toEqual([200, expect.stringContaining('ends before')])
    await until(async () => (await first()) === 'superseded', { what: 'the old version to end' })
    await poor.call('PATCH', '/v1/apps/one', { port: 8080, strategy: 'rolling' })
    expect(await poor.post('/v1/apps/one/deploy', all)).toMatchObject({
      status: 403,
      body: { code: 'plan_limit_exceeded' },
    })
  })
})

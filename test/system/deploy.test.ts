import { request } from 'node:http'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { describeEachPostgres } from '../support/database.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

const viaGateway = (port: number, host: string) =>
  new Promise<{ status: number; body: string }>((resolve, reject) => {
    request({ port, host: '127.0.0.1', path: '/', headers: { host } }, res => {
      let body = ''
      res
        .setEncoding('utf8')
        .on('data', chunk => (body += chunk))
        .on('end', () => resolve({ status: res.statusCode ?? 0, body }))
    })
      .on('error', reject)
      .end()
  })

describeEachPostgres('an app', postgres => {
  let system: TestSystem
  let user: TestUser
  beforeAll(async () => {
    system = await testSystem({ postgres })
    user = await system.user()
  })
  afterAll(async () => system[Symbol.asyncDispose]())

  const status = async (app: string, job: string) => (await user.get(`/v1/apps/${app}/deployments/${job}`)).body
  const reaches = (app: string, job: string, wanted: string) =>
    until(async () => (await status(app, job)).status === wanted, { what: `${job} to be ${wanted}` })

  /** Waits until the gateway serves the app: gateways receive a route change shortly after its commit. */
  const serves = (hostname: string) =>
    until(async () => (await viaGateway(system.gateway.port, hostname)).status === 200, { what: `${hostname} answers` })

  it('is deployed, serves through the gateway, is redeployed, rolled back and deleted', async () => {
    const created = await user.post('/v1/apps', { name: 'hello', git_url: '', drain_timeout: 0 })
    expect(created.status).toBe(200)
    const first = await user.post('/v1/apps/hello/deploy', { image: 'example/app:1' })
    expect(first.body).toMatchObject({ status: 'pending', image_tag: '1' })
    await reaches('hello', first.body.job_id, 'running')

    const { hostname } = (await user.get('/v1/apps/hello')).body
    expect(hostname).toBe(`hello-${user.project}.localhost`)
    await serves(hostname)
    expect((await user.get('/v1/deployments/active')).body).toMatchObject([
      { deployment_id: first.body.deployment_id, status: 'running', hypervisor: 'fake', memory_mib: 512, vcpus: 1 },
    ])

    const second = await user.post('/v1/deploy', { app_name: 'hello', image: 'example/app:2' })
    await reaches('hello', second.body.job_id, 'running')
    await reaches('hello', first.body.job_id, 'superseded')
    expect((await user.get('/v1/apps/hello')).body.active_deployment_id).toBe(second.body.deployment_id)

    const back = await user.post(`/v1/apps/hello/deployments/${first.body.deployment_id}/activate`)
    expect(back.status).toBe(200)
    await reaches('hello', first.body.job_id, 'running')
    await reaches('hello', second.body.job_id, 'superseded')
    await serves(hostname)
    const history = (await user.get('/v1/apps/hello/deployments')).body
    expect(history.find((one: { job_id: string }) => one.job_id === first.body.job_id).trigger_source).toBe('rollback')

    expect((await user.delete(`/v1/apps/hello/deployments/${first.body.job_id}`)).body.status).toBe('stopping')
    await reaches('hello', first.body.job_id, 'stopped')
    await until(async () => (await viaGateway(system.gateway.port, hostname)).status === 503, {
      what: 'nothing serves',
    })

    expect((await user.delete('/v1/apps/hello')).body).toEqual({ status: 'deleting' })
    expect((await user.get('/v1/apps/hello')).status).toBe(404)
    await until(async () => (await viaGateway(system.gateway.port, hostname)).status === 404, {
      what: 'the route to be deleted',
    })
    await until(async () => (await system.database.db.rows(leftovers)).length === 0, {
      what: 'every row to be deleted',
    })
    const room = await system.database.db.one<{ used: number }>(usedRoom)
    expect(room.used).toBe(0)
  })

  it('is paused and resumed', async () => {
    await user.post('/v1/apps', { name: 'sleepy', git_url: '' })
    const { job_id } = (await user.post('/v1/apps/sleepy/deploy', { image: 'example/app:1' })).body
    expect((await user.post(`/v1/apps/sleepy/deployments/${job_id}/pause`)).status).toBe(409)
    await reaches('sleepy', job_id, 'running')
    expect((await user.post(`/v1/apps/sleepy/deployments/${job_id}/pause`)).body.status).toBe('pausing')
    await reaches('sleepy', job_id, 'paused')
    expect((await user.post(`/v1/apps/sleepy/deployments/${job_id}/resume`)).body.status).toBe('resuming')
    await reaches('sleepy', job_id, 'running')
  })

  it('has an event stream with every status in order, which replays events that a client missed', async () => {
    await user.post('/v1/apps', { name: 'streamed', git_url: '' })
    const end = new AbortController()
    const observed: { id: string | undefined; status: string }[] = []
    const reading = (async () => {
      for await (const { event, id, data } of user.events('/v1/apps/streamed/deployments/stream', end.signal)) {
        if (event === 'deployment.status') observed.push({ id, status: data.status })
        if (event === 'snapshot') observed.push({ id, status: 'snapshot' })
      }
    })().catch(() => {})
    await until(() => observed.length === 1, { what: 'the snapshot' })
    const { job_id } = (await user.post('/v1/apps/streamed/deploy', { image: 'example/app:1' })).body
    await until(() => observed.at(-1)?.status === 'running', { what: 'the last status' })
    end.abort()
    await reading
    const statuses = observed.map(s => s.status)
    expect(statuses[0]).toBe('snapshot')
    expect(statuses[1]).toBe('pending')
    expect(statuses.at(-1)).toBe('running')
    const ids = observed.map(s => Number(s.id))
    expect(ids).toEqual([...ids].sort((a, b) => a - b))

    const again = new AbortController()
    const replayed: string[] = []
    for await (const { event, data } of user.events('/v1/apps/streamed/deployments/stream', again.signal, {
      'last-event-id': String(ids[0]),
    })) {
      if (event === 'deployment.status') replayed.push(data.status)
      if (data.status === 'running') break
    }
    again.abort()
    expect(replayed).toEqual(statuses.slice(1))
    expect(job_id).toMatch(/^job-/)
  })

  it('completes a deployment although the control plane is restarted', async () => {
    await user.post('/v1/apps', { name: 'interrupted', git_url: '' })
    const { job_id } = (await user.post('/v1/apps/interrupted/deploy', { image: 'example/app:1' })).body
    await system.restartControl()
    user = { ...user, ...system.api.as(user.token ?? '') }
    await reaches('interrupted', job_id, 'running')
  })

  it('is invisible to members of other projects', async () => {
    const stranger = await system.user()
    await user.post('/v1/apps', { name: 'private', git_url: '' })
    const missing = await stranger.get('/v1/apps/private')
    expect(missing.status).toBe(404)
    expect((await stranger.get('/v1/apps/private', { 'x-project': user.project })).status).toBe(404)
    expect((await stranger.get('/v1/deployments/active')).body).toEqual([])
  })
})

const leftovers = {
  name: 'test.leftovers',
  text: `SELECT 'app' AS kind FROM app WHERE name = 'hello' UNION ALL SELECT 'deployment' FROM deployment d JOIN app a ON a.id = d.app_id WHERE a.name = 'hello'
         UNION ALL SELECT 'vm' FROM vm`,
}
const usedRoom = {
  name: 'test.usedRoom',
  text: `SELECT (used_vcpus + used_memory_mib + used_disk_mib)::int AS used FROM host`,
}

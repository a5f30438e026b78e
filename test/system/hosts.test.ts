/**
 * Operators list, cordon, drain and remove hosts, and VMs of a lost host are restarted. Uses real agents, simulated
 * VMs.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { viaGateway } from '../support/http.ts'
import { moteProgram } from '../support/program.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

let system: TestSystem
let admin: TestUser
beforeAll(async () => {
  system = await testSystem({ agents: 3, config: { hostTimeoutSeconds: 2 } })
  admin = await system.user()
})
afterAll(async () => system[Symbol.asyncDispose]())

const host = async (name: string) => (await admin.get(`/v1/admin/hosts/${name}`)).body
const running = async (app: string) => {
  const found = (await admin.get('/v1/deployments/active?limit=100')).body.find(
    (d: { app_name: string }) => d.app_name === app,
  )
  return found?.status === 'running'
}

it('host operations are allowed for administrators only', async () => {
  const stranger = await system.user()
  expect((await stranger.get('/v1/admin/hosts')).status).toBe(403)
  expect((await stranger.post('/v1/admin/hosts/host-1/drain')).status).toBe(403)
  expect((await system.api.get('/v1/admin/hosts')).status).toBe(401)
  expect((await admin.get('/v1/admin/hosts/none')).status).toBe(404)
})

it('all hosts are listed, and no new VM is placed on a cordoned host', async () => {
  const { body } = await admin.get('/v1/admin/hosts')
  expect(body.map((one: { name: string; status: string }) => [one.name, one.status])).toEqual([
    ['host-1', 'up'],
    ['host-2', 'up'],
    ['host-3', 'up'],
  ])
  for (const name of ['host-1', 'host-2'])
    expect((await admin.post(`/v1/admin/hosts/${name}/cordon`)).body.cordoned).toBe(true)
  await admin.post('/v1/deploy', { app_name: 'placed', image: 'example/app:1' })
  await until(() => running('placed'), { timeoutMs: 30_000, what: 'it runs' })
  expect((await host('host-3')).vms).toBe(1)
  expect((await admin.delete('/v1/admin/hosts/host-3')).status).toBe(409)
  for (const name of ['host-1', 'host-2'])
    expect((await admin.post(`/v1/admin/hosts/${name}/uncordon`)).body.cordoned).toBe(false)
  await admin.delete('/v1/apps/placed')
})

it('mote host lists and cordons hosts', async () => {
  const run = async (...args: string[]) => {
    const env = {
      ...process.env,
      CI: 'true',
      FORCE_COLOR: '',
      MOTE_URL: system.control.url,
      MOTE_TOKEN: admin.token ?? '',
    }
    return (await promisify(execFile)(process.execPath, [moteProgram, 'host', ...args], { env })).stdout
  }
  expect(await run('list')).toMatch(/^NAME +STATUS[^]*host-2 +up/)
  expect(await run('cordon', 'host-2')).toMatch(/host-2 +up, cordoned/)
  expect(JSON.parse(await run('uncordon', 'host-2', '--json'))).toMatchObject({ name: 'host-2', cordoned: false })
  await expect(run('drain', 'none')).rejects.toThrow('Not found')
}, 120_000)

it('a host is drained under load without a failed request, and can then be removed', async () => {
  await admin.post('/v1/apps', { name: 'busy', git_url: '', desired_replicas: 2, drain_timeout: 1 })
  await admin.post('/v1/apps/busy/deploy', { image: 'example/app:1' })
  await until(() => running('busy'), { timeoutMs: 30_000, what: 'it runs' })
  const { hostname } = (await admin.get('/v1/apps/busy')).body
  await until(async () => (await viaGateway(system.gateway.port, hostname)).status === 200, { what: 'it answers' })
  const [taken] = (await admin.get('/v1/admin/hosts')).body.filter((one: { vms: number }) => one.vms > 0)

  const statuses: number[] = []
  const end = new AbortController()
  const load = (async () => {
    while (!end.signal.aborted) statuses.push((await viaGateway(system.gateway.port, hostname)).status)
  })()
  const drained = (await admin.post(`/v1/admin/hosts/${taken.name}/drain`)).body
  expect(drained).toMatchObject({ draining: true, cordoned: true })
  // The response to the drain request has no report of remaining VMs, which is computed only by reads of the host.
  expect(drained).not.toHaveProperty('leaving')
  expect(await host(taken.name)).toMatchObject({ leaving: expect.any(Array), leaving_volumes: [] })
  await until(async () => (await host(taken.name)).vms === 0, { what: 'the host to be empty' })
  end.abort()
  await load
  expect(statuses.filter(status => status !== 200)).toEqual([])
  expect((await admin.delete(`/v1/admin/hosts/${taken.name}`)).body).toEqual({ status: 'removed' })
  expect((await admin.get(`/v1/admin/hosts/${taken.id}`)).status).toBe(404)
}, 120_000)

it('VMs of a lost host are restarted on other hosts', async () => {
  const extra = await system.addAgent()
  await until(async () => (await admin.get('/v1/admin/hosts')).body.length === 3, {
    what: 'another host to join',
  })
  for (const one of (await admin.get('/v1/admin/hosts')).body)
    if (one.id !== extra.hostId) await admin.post(`/v1/admin/hosts/${one.id}/cordon`)
  await admin.post('/v1/deploy', { app_name: 'survivor', image: 'example/app:1' })
  await until(() => running('survivor'), { timeoutMs: 30_000, what: 'it runs' })
  for (const one of (await admin.get('/v1/admin/hosts')).body)
    if (one.id !== extra.hostId) await admin.post(`/v1/admin/hosts/${one.id}/uncordon`)
  await extra.stop()
  await until(async () => (await host(extra.hostId)).status === 'lost', {
    what: 'the host to be declared lost',
  })
  await until(() => running('survivor'), { timeoutMs: 30_000, what: 'the app to run again' })
  expect(await host(extra.hostId)).toMatchObject({ vms: 0, strays: 1, used_vcpus: 1 })
  expect((await admin.call('DELETE', `/v1/admin/hosts/${extra.hostId}?force=true`)).status).toBe(200)
}, 120_000)

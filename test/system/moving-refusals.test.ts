/**
 * Not repeated on the distribution's PostgreSQL: this file tests rules of the API, not the database.
 * While a VM, its volumes and its snapshots move to another host, the API rejects operations that need them on the
 * source.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { subjects } from '../../src/contract/agent.ts'
import { newId } from '../../src/lib/ids.ts'
import { type SimHost, simHost } from '../support/sim-host.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

let system: TestSystem
let user: TestUser
const hosts: SimHost[] = []
const end = new AbortController()
/** If true, the simulated hosts answer requests but make no progress, so that a move remains unfinished. */
let areHostsIdle = false
let turning: Promise<unknown>

beforeAll(async () => {
  system = await testSystem({ agents: 0 })
  user = await system.user()
  const between = { wires: new Map(), parcels: new Map(), snapshotParcels: new Map(), truth: new Map() }
  for (const name of ['sim-1', 'sim-2'])
    hosts.push(await simHost(system.bus, { id: newId(), name, ...between, reportsTime: true }))
  turning = turn()
  await until(async () => (await user.get('/v1/admin/hosts')).body.length === 2, { what: 'the hosts to join' })
})
afterAll(async () => {
  end.abort()
  await turning
  for (const host of hosts) await host.stop()
  await system[Symbol.asyncDispose]()
})

async function turn(): Promise<void> {
  for (let round = 0; !end.signal.aborted; round++) {
    for (const host of hosts) {
      if (round % 100 === 0) await system.bus.publish(subjects.heartbeat(host.id), host.heartbeat())
      if (!areHostsIdle) await host.tick()
    }
    await new Promise(resolve => setTimeout(resolve, 2))
  }
}

const timeoutMs = 20_000
const inProgress = { status: 409, body: { code: 'operation_in_progress' } }

/** Creates an app whose VM runs with a volume and has a snapshot `then`. */
async function kept(name: string) {
  const { id } = (await user.post('/v1/apps', { name, git_url: '', drain_timeout: 0 })).body
  const volume = (await user.post('/v1/volumes', { name: `${name}-data`, size_mib: 64 })).body
  expect((await user.post(`/v1/apps/${id}/volumes/attach`, { volume_id: volume.id })).status).toBe(200)
  const { job_id } = (await user.post(`/v1/apps/${name}/deploy`, { image: 'example/app:1' })).body
  const at = (path: string) => `/v1/apps/${name}/deployments/${job_id}${path}`
  const status = async () => (await user.get(at(''))).body
  await until(async () => (await status()).status === 'running', { timeoutMs, what: 'it runs' })
  await user.post(at('/snapshot'), { snapshot_name: 'then' })
  const snapshot = async () => (await user.get(at('/snapshots'))).body[0]
  await until(async () => (await snapshot()).status === 'ready', { timeoutMs, what: 'the snapshot to be ready' })
  const isOn = async (hostId: string) => (await snapshot()).host_id === hostId
  return { appId: id, at, status, volumeId: volume.id, isOn }
}
const otherThan = (id: string) => hosts.find(host => host.id !== id)!

it('snapshots of a moving VM cannot be taken, restored, forked or deleted before the move ends', async () => {
  const { at, status, isOn } = await kept('runs')
  const target = otherThan((await status()).host_id)
  areHostsIdle = true
  const begun = await user.post(at('/migration/start'), { target_host: target.name, target_uri: '' })
  expect(begun).toMatchObject({ status: 200, body: { status: 'preparing' } })
  const asked = {
    take: () => user.post(at('/snapshot'), { snapshot_name: 'now' }),
    restore: () => user.post(at('/snapshot/then/restore')),
    fork: () => user.post(at('/snapshot/then/fork'), { app_name: 'runs-fork', replicas: 1 }),
    remove: () => user.delete(at('/snapshot/then')),
  }
  for (const [what, ask] of Object.entries(asked)) expect([what, await ask()]).toMatchObject([what, inProgress])
  expect((await user.get('/v1/apps/runs-fork')).status).toBe(404)
  areHostsIdle = false
  const move = async () => (await user.get(at('/migration/status'))).body
  await until(async () => (await move()).status === 'completed', { timeoutMs, what: 'the move to end' })
  expect(await isOn(target.id)).toBe(true)
  await until(async () => (await asked.fork()).status === 200, {
    timeoutMs,
    what: 'a fork on the target to be accepted',
  })
  await until(async () => (await asked.take()).status === 200, { timeoutMs, what: 'another snapshot to be accepted' })
  expect((await asked.restore()).status).toBe(200)
}, 60_000)

it('a snapshot whose detached volume moves cannot be restored, forked or deleted before the move ends', async () => {
  const { appId, at, status, volumeId, isOn } = await kept('rests')
  const target = otherThan((await status()).host_id)
  expect((await user.delete(`/v1/apps/${appId}/volumes/${volumeId}/detach`)).status).toBe(200)
  const attached = async () => (await user.get(`/v1/apps/${appId}/volumes`)).body
  await until(async () => (await attached()).length === 0, { timeoutMs, what: 'the VM to detach the volume' })
  areHostsIdle = true
  expect((await user.post(`/v1/volumes/${volumeId}/move`, { target_host: target.name })).status).toBe(200)
  const asked = {
    restore: () => user.post(at('/snapshot/then/restore')),
    fork: () => user.post(at('/snapshot/then/fork'), { app_name: 'rests-fork', replicas: 1 }),
    remove: () => user.delete(at('/snapshot/then')),
    'move again': () => user.post(`/v1/volumes/${volumeId}/move`, { target_host: target.name }),
  }
  for (const [what, ask] of Object.entries(asked)) expect([what, await ask()]).toMatchObject([what, inProgress])
  areHostsIdle = false
  await until(() => isOn(target.id), { timeoutMs, what: 'the move to end' })
  await until(async () => (await asked.fork()).status === 200, {
    timeoutMs,
    what: 'a fork on the target to be accepted',
  })
  const isGone = async () => (await asked.remove()).status === 200
  await until(isGone, { timeoutMs, what: 'deletion to be accepted after the fork has started' })
}, 60_000)

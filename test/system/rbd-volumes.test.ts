// Not repeated on the distribution's PostgreSQL: this file tests hosts that share storage, not the database.
/**
 * A volume in a storage pool that all hosts share (Ceph RBD, with strict fakes of its programs) moves between hosts:
 * with its VM, and when its host is lost and returns. Two hosts must never be able to write at the same time.
 */
import { mkdtemp, open, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Value } from 'typebox/value'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Agent } from '../../src/agent/main.ts'
import { createFakeHost, type FakeHost } from '../../src/agent/hypervisor/fake/host.ts'
import { subjects, VolumeObserved } from '../../src/contract/agent.ts'
import { statement } from '../../src/db/db.ts'
import { type RbdPrograms, rbdPrograms } from '../support/rbd-programs.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

interface Machine {
  /** Name of the host, which is also its client id in the Ceph cluster. */
  readonly name: string
  readonly simulated: FakeHost
  agent: Agent
}

const hostOfVolume = statement<{ host: string; grown: number }>(
  'test.hostOfVolume',
  'SELECT host_id AS host, grown_mib AS grown FROM volume WHERE id = $1',
)
const patient = { timeoutMs: 30_000 }
const at = (path = '') => `/v1/apps/keeper/deployments/${job}${path && `/${path}`}`
let system: TestSystem
let user: TestUser
let dir: string
let rbd: RbdPrograms
let machines: Machine[]
let volumeId: string
let job: string

const started = (name: string, simulated: FakeHost) =>
  system.addAgent(
    {
      hypervisor: 'fake',
      hostName: name,
      dataDir: join(system.dir, name),
      pools: [{ name: 'ceph', kind: 'rbd', place: `rbd@${name}` }],
    },
    simulated,
  )
const machineOf = async (): Promise<Machine> => {
  const { host_id } = (await user.get(at())).body
  const found = machines.find(one => one.agent.hostId === host_id)
  if (!found) throw new Error(`unknown host: ${host_id}`)
  return found
}
const other = (than: Machine) => machines.find(one => one !== than) as Machine
const runs = () => until(async () => (await user.get(at())).body.status === 'running', { ...patient, what: 'it runs' })
const image = () => rbd.cluster.images.get(`v.${volumeId}`)
const mappedAt = async ({ name }: Machine) =>
  JSON.parse(await rbd.cluster.client(name)('rbd', ['device', 'list', '--format', 'json']))
const write = async (text: string, id = volumeId) => {
  const file = await open(rbd.fileOf(id), 'r+')
  await file.write(text, 16 << 20)
  await file.close()
}
const holds = async (text: string, id = volumeId) => (await readFile(rbd.fileOf(id))).includes(text)

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'mote-test-rbd-'))
  rbd = await rbdPrograms(dir)
  system = await testSystem({ agents: 0, config: { hostTimeoutSeconds: 2 } })
  machines = []
  for (const name of ['one', 'two']) {
    const simulated = createFakeHost({ imageMs: 0, bootMs: 5, healthyMs: 0, stopMs: 10, logEveryMs: 0 })
    machines.push({ name, simulated, agent: await started(name, simulated) })
  }
  user = await system.user()
  const ready = async () => (await user.get('/v1/admin/hosts')).body.length === 2
  await until(ready, { ...patient, what: 'both hosts to join' })
  volumeId = (await user.post('/v1/volumes', { name: 'data', size_mib: 32, pool_name: 'ceph' })).body.id
  const { id: appId } = (await user.post('/v1/apps', { name: 'keeper', git_url: '', drain_timeout: 0 })).body
  await user.post(`/v1/apps/${appId}/volumes/attach`, { volume_id: volumeId, mount_point: '/data' })
  job = (await user.post('/v1/apps/keeper/deploy', { image: 'example/app:1' })).body.job_id
  await runs()
}, 120_000)
afterAll(async () => {
  await system[Symbol.asyncDispose]()
  await rbd[Symbol.asyncDispose]()
  await rm(dir, { recursive: true, force: true })
})

it('a shared volume moves with its VM without a copy, after the source has unmapped it', async () => {
  const source = await machineOf()
  const target = other(source)
  await write('before the move')
  const begun = await user.post(at('migration/start'), { target_host: target.name, target_uri: '' })
  expect(begun.body).toMatchObject({ method: 'stop-and-copy', with_volumes: true })
  const status = async () => (await user.get(at('migration/status'))).body
  await until(async () => (await status()).status === 'completed', { ...patient, what: 'the move to end' })
  expect(await status()).toMatchObject({ error: null, total_bytes: 0 })
  await runs()
  expect(await machineOf()).toBe(target)
  expect(image()?.locker).toBe(`client.${target.name}`)
  expect(await mappedAt(source)).toEqual([])
  // No client was blocklisted, because the source had released its lock before the target took it.
  expect([...rbd.cluster.blocklist]).toEqual([])
  expect([...rbd.cluster.images.keys()]).toEqual([`v.${volumeId}`])
  expect(await holds('before the move')).toBe(true)
}, 120_000)

it('a lost host can no longer write to a shared volume, and unmaps it when the host returns', async () => {
  const lost = await machineOf()
  const saviour = other(lost)
  await write('before the loss')
  await lost.agent.stop()
  expect(image()?.locker).toBe(`client.${lost.name}`)
  await until(async () => (await user.get(at())).body.host_id === saviour.agent.hostId, {
    ...patient,
    what: 'the VM to be placed on the other host',
  })
  await runs()
  expect([...rbd.cluster.blocklist]).toEqual([`client.${lost.name}`])
  expect(image()?.locker).toBe(`client.${saviour.name}`)
  expect(await holds('before the loss')).toBe(true)
  // The lost host still has the device mapped, but the cluster rejects its writes.
  expect((await mappedAt(lost)).length).toBe(1)
  lost.agent = await started(lost.name, lost.simulated)
  await until(async () => (await mappedAt(lost)).length === 0, { ...patient, what: 'the host to unmap the volume' })
  expect(image()?.locker).toBe(`client.${saviour.name}`)
  expect((await user.get(at())).body.status).toBe('running')
}, 120_000)

it('a shared volume is not restored again by another host after the host that restored it is lost', async () => {
  const { id } = (await user.post('/v1/volumes', { name: 'history', size_mib: 32, pool_name: 'ceph' })).body
  const of = async () => (await user.get('/v1/volumes')).body.find((one: { id: string }) => one.id === id)
  const snapshot = async (name: string): Promise<string> => {
    const made = (await user.post(`/v1/volumes/${id}/snapshots`, { name })).body.id
    const all = async (): Promise<{ id: string; status: string }[]> =>
      (await user.get(`/v1/volumes/${id}/snapshots`)).body
    const ready = async () => (await all()).some(one => one.id === made && one.status === 'ready')
    await until(ready, { ...patient, what: `snapshot ${name}` })
    return made
  }
  await snapshot('empty')
  await write('as it was', id)
  await snapshot('kept')
  await write('a mistake', id)
  expect((await user.post(`/v1/volumes/${id}/restore`, { snapshot_name: 'kept' })).status).toBe(200)
  await until(async () => (await of()).status === 'ready', { ...patient, what: 'the restore to end' })
  expect(await holds('as it was', id)).toBe(true)
  await write('ever since', id)
  const rows = await system.database.db.rows(hostOfVolume, [id])
  const lost = machines.find(({ agent }) => agent.hostId === rows[0]?.host) as Machine
  await lost.agent.stop()
  const isLost = async () => {
    const all: { id: string; status: string }[] = (await user.get('/v1/admin/hosts')).body
    return all.find(host => host.id === lost.agent.hostId)?.status === 'lost'
  }
  await until(isLost, { ...patient, what: 'its host to be declared lost' })
  expect((await user.call('PATCH', `/v1/volumes/${id}`, { size_mib: 48 })).status).toBe(200)
  const grown = async () => (await system.database.db.rows(hostOfVolume, [id]))[0]?.grown === 48
  await until(grown, { ...patient, what: 'the volume to grow' })
  const at = subjects.hostIn(other(lost).agent.hostId, 'volume.get')
  const observed = async () =>
    Value.Parse(VolumeObserved, await system.bus.request(at, { volumeId: id }, { timeoutMs: 5000 }))
  await until(async () => (await observed()).state === 'ready', {
    ...patient,
    what: 'the other host to apply the desired state',
  })
  expect(await holds('ever since', id)).toBe(true)
  lost.agent = await started(lost.name, lost.simulated)
  await user.delete(`/v1/volumes/${id}`)
}, 90_000)

it('a deleted shared volume leaves no image in the cluster', async () => {
  await user.delete('/v1/apps/keeper')
  await until(async () => (await user.delete(`/v1/volumes/${volumeId}`)).status === 200, {
    ...patient,
    what: 'the volume to be detached',
  })
  await until(() => rbd.cluster.images.size === 0, { ...patient, what: 'the image to be removed' })
  for (const machine of machines) expect(await mappedAt(machine)).toEqual([])
}, 120_000)

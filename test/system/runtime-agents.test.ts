/**
 * VM snapshots, forks, migration and wake-up of suspended apps through the whole system: API, control plane, real
 * agents with simulated VMs, gateway.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { subjects } from '../../src/contract/agent.ts'
import { viaGateway } from '../support/http.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

let system: TestSystem
let user: TestUser
beforeAll(async () => {
  system = await testSystem({ agents: 2, config: { idleSeconds: 2 } })
  user = await system.user()
})
afterAll(async () => system[Symbol.asyncDispose]())

const at = (app: string, job: string, path = '') => `/v1/apps/${app}/deployments/${job}${path && `/${path}`}`
const status = async (app: string, job: string) => (await user.get(at(app, job))).body
const runs = (app: string, job: string) =>
  until(async () => (await status(app, job)).status === 'running', { what: `${app} runs` })
async function deploy(app: string, settings = {}): Promise<string> {
  await user.post('/v1/apps', { name: app, git_url: '', drain_timeout: 0, ...settings })
  const { job_id } = (await user.post(`/v1/apps/${app}/deploy`, { image: 'example/app:1' })).body
  await runs(app, job_id)
  return job_id
}
const hostname = async (app: string) => (await user.get(`/v1/apps/${app}`)).body.hostname
/** Returns the memory content, identity and id of the VM that responds to requests for this host name. */
async function guestOf(name: string) {
  const answer = await until(
    async () => {
      const found = await viaGateway(system.gateway.port, name)
      return found.status === 200 && found
    },
    { what: `${name} answers` },
  )
  return {
    memory: answer.headers['x-mote-memory'],
    identity: answer.headers['x-mote-identity'],
    vm: answer.headers['x-mote-vm'],
  }
}

it('a VM is restored from its snapshot, and forks get their own identity', async () => {
  const job = await deploy('original')
  const name = await hostname('original')
  const before = await guestOf(name)
  await user.post(at('original', job, 'snapshot'), { snapshot_name: 'good' })
  const state = async () => (await user.get(at('original', job, 'snapshots'))).body[0]
  await until(async () => (await state()).status !== 'creating', { what: 'the snapshot to end' })
  expect(await state()).toMatchObject({ status: 'ready', error: null })
  expect((await user.post(at('original', job, 'snapshot/good/restore'))).status).toBe(200)
  const booted = async () => (await user.get(at('original', job))).body.steps.length
  await until(async () => (await booted()) > 0 && (await status('original', job)).status === 'running', {
    what: 'the restored guest',
  })
  expect(await guestOf(name)).toEqual(before)

  const { body } = await user.post(at('original', job, 'snapshot/good/fork'), { app_name: 'clone' })
  await runs('clone', body.job_id)
  const clone = await guestOf(await hostname('clone'))
  expect(clone.memory).toBe(before.memory)
  expect(clone.identity).not.toBe(before.identity)
  expect(clone.vm).not.toBe(before.vm)
}, 120_000)

it('a VM moves to the other host and keeps running', async () => {
  const job = await deploy('mover')
  const name = await hostname('mover')
  const before = await guestOf(name)
  const { host_id } = await status('mover', job)
  const hosts: { id: string; name: string }[] = (await user.get('/v1/admin/hosts')).body
  const target = hosts.find(host => host.id !== host_id)
  expect(
    (await user.post(at('mover', job, 'migration/start'), { target_host: target?.name, target_uri: '' })).status,
  ).toBe(200)
  const state = async () => (await user.get(at('mover', job, 'migration/status'))).body
  await until(async () => !['preparing', 'copying', 'switching', 'clearing'].includes((await state()).status), {
    what: 'the move to end',
  })
  expect(await state()).toMatchObject({ status: 'completed', error: null, percent: 100 })
  await runs('mover', job)
  expect((await status('mover', job)).host_id).toBe(target?.id)
  expect(await guestOf(name)).toEqual(before)
}, 120_000)

it('a cancelled move leaves the VM running on the source only', async () => {
  const slow = { imageMs: 0, bootMs: 5, healthyMs: 0, stopMs: 0, logEveryMs: 0, copyMs: 20_000 }
  const source = await system.addAgent({ fake: slow })
  const only = async (hostId: string) => {
    const hosts: { id: string }[] = (await user.get('/v1/admin/hosts')).body
    for (const host of hosts)
      await user.post(`/v1/admin/hosts/${host.id}/${host.id === hostId ? 'uncordon' : 'cordon'}`)
    return hosts.find(host => host.id !== hostId)?.id ?? ''
  }
  await until(async () => (await user.get('/v1/admin/hosts')).body.length === 3, { what: 'the slow host to join' })
  const target = await only(source.hostId)
  const job = await deploy('stayer')
  for (const host of (await user.get('/v1/admin/hosts')).body) await user.post(`/v1/admin/hosts/${host.id}/uncordon`)
  const name = await hostname('stayer')
  const before = await guestOf(name)
  await user.post(at('stayer', job, 'migration/start'), { target_host: target, target_uri: '' })
  const state = async () => (await user.get(at('stayer', job, 'migration/status'))).body.status
  await until(async () => (await state()) === 'copying', { what: 'the copy to start' })
  expect((await status('stayer', job)).status).toBe('migrating')
  expect(await guestOf(name)).toEqual(before)
  expect((await user.post(at('stayer', job, 'migration/cancel'))).status).toBe(200)
  await until(async () => (await state()) === 'cancelled', { what: 'the move to be cancelled' })
  await runs('stayer', job)
  expect((await status('stayer', job)).host_id).toBe(source.hostId)
  expect(await guestOf(name)).toEqual(before)
  const held = await system.bus.request(
    subjects.hostIn(target, 'vm.get'),
    { vmId: (await status('stayer', job)).vm_id },
    { timeoutMs: 1000 },
  )
  expect(held).toMatchObject({ state: 'absent' })
}, 120_000)

it('a suspended app resumes with its memory content', async () => {
  const job = await deploy('sleeper', { min_replicas: 0 })
  const name = await hostname('sleeper')
  const { memory } = await guestOf(name)
  await until(async () => (await status('sleeper', job)).status === 'sleeping', {
    what: 'it sleeps',
  })
  await until(
    async () =>
      (
        await system.database.db.rows({
          name: 'test.sleepers',
          text: `SELECT v.id FROM vm v JOIN app a ON a.id = v.app_id WHERE a.name = 'sleeper'`,
        })
      ).length === 0,
    { what: 'every VM to be removed' },
  )
  expect((await guestOf(name)).memory).toBe(memory)
}, 120_000)

it('a command runs in the guest, and the balloon follows its target', async () => {
  const job = await deploy('tools')
  expect((await user.post(at('tools', job, 'exec'), { command: ['echo', 'hello', 'there'] })).body).toMatchObject({
    exit_code: 0,
    stdout: 'hello there\n',
  })
  expect((await user.post(at('tools', job, 'exec'), { command: ['rm'] })).body).toMatchObject({ exit_code: 127 })
  await user.post(at('tools', job, 'balloon'), { target_memory_mib: 256 })
  await until(async () => (await user.get(at('tools', job, 'balloon'))).body.actual_memory_mib === 256, {
    what: 'the guest to shrink',
  })
}, 120_000)

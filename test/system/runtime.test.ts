/** Operations on running VMs through the API, with simulated hosts in place of agents. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { subjects } from '../../src/contract/agent.ts'
import { newId } from '../../src/lib/ids.ts'
import { type SimHost, type SimVm, simHost } from '../support/sim-host.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

let system: TestSystem
let user: TestUser
const hosts: SimHost[] = []
const end = new AbortController()
let turning: Promise<unknown>

beforeAll(async () => {
  system = await testSystem({ agents: 0 })
  user = await system.user()
  const wires = new Map<string, SimVm>()
  for (const name of ['sim-1', 'sim-2'])
    hosts.push(await simHost(system.bus, { id: newId(), name, wires, reportsTime: true }))
  turning = turn()
  await until(async () => (await user.get('/v1/admin/hosts')).body.length === 2, { what: 'the hosts to join' })
  await user.post('/v1/apps', { name: 'app', git_url: '', drain_timeout: 0 })
})
afterAll(async () => {
  end.abort()
  await turning
  for (const host of hosts) await host.stop()
  await system[Symbol.asyncDispose]()
})

/** Advances the simulated hosts every 2 ms, and publishes a heartbeat every 100 rounds. */
async function turn(): Promise<void> {
  for (let round = 0; !end.signal.aborted; round++) {
    for (const host of hosts) {
      if (round % 100 === 0) await system.bus.publish(subjects.heartbeat(host.id), host.heartbeat())
      await host.tick()
    }
    await new Promise(resolve => setTimeout(resolve, 2))
  }
}

const deploy = async (): Promise<string> => {
  const { job_id } = (await user.post('/v1/apps/app/deploy', { image: 'example/app:1' })).body
  await until(async () => (await status(job_id)).status === 'running', { what: 'it runs' })
  return job_id
}
const status = async (job: string) => (await user.get(`/v1/apps/app/deployments/${job}`)).body
const at = (job: string, path: string) => `/v1/apps/app/deployments/${job}/${path}`
const machineOf = (vmId: string) => hosts.flatMap(host => (host.vms.has(vmId) ? [host.vms.get(vmId)!] : []))[0]!

describe('VM snapshots', () => {
  it('are created, listed, restored and deleted', async () => {
    const job = await deploy()
    const { vm_id } = await status(job)
    const made = await user.post(at(job, 'snapshot'), { snapshot_name: 'before' })
    expect(made.body).toMatchObject({ name: 'before', status: 'creating', vm_id })
    expect((await user.post(at(job, 'snapshot'), { snapshot_name: 'before' })).body.code).toBe('name_taken')
    const one = async () => (await user.get(at(job, 'snapshots'))).body[0]
    await until(async () => (await one()).status === 'ready', { what: 'the snapshot to be ready' })
    expect(await one()).toMatchObject({ size_bytes: 4096, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) })

    const before = machineOf(vm_id).memory
    machineOf(vm_id).memory = 'changed'
    expect((await user.post(at(job, 'snapshot/before/restore'))).body).toMatchObject({ status: 'restoring', vm_id })
    await until(() => machineOf(vm_id).memory === before, { what: 'the VM to be restored' })
    expect((await user.post(at(job, 'snapshot/none/restore'))).status).toBe(404)

    const forked = await user.post(at(job, 'snapshot/before/fork'), { app_name: 'clones', replicas: 3 })
    expect(forked.status).toBe(200)
    const clones: string[] = forked.body.vm_ids
    await until(
      async () => (await user.get(`/v1/apps/clones/deployments/${forked.body.job_id}`)).body.status === 'running',
      {
        what: 'the clones to run',
      },
    )
    expect(clones.map(id => machineOf(id).memory)).toEqual([before, before, before])
    expect(new Set([...clones, vm_id].map(id => machineOf(id).identity)).size).toBe(4)

    expect((await user.delete(at(job, 'snapshot/before'))).body).toEqual({ status: 'deleted' })
    expect((await user.get(at(job, 'snapshots'))).body).toEqual([])
    await until(() => hosts.every(host => host.snapshots.size === 0), { what: 'the host to delete the snapshot' })
  }, 30_000)
})

describe('the migration of a VM', () => {
  it('moves the VM with its memory, and reports every step', async () => {
    const job = await deploy()
    const { vm_id, host_id } = await status(job)
    expect((await user.get(at(job, 'migration/status'))).body).toMatchObject({ status: 'none' })
    const target = hosts.find(host => host.id !== host_id)!
    const { memory } = machineOf(vm_id)
    const start = (target_host: string, target_uri = '') =>
      user.post(at(job, 'migration/start'), { target_host, target_uri })
    expect((await start('nowhere')).status).toBe(400)
    expect((await start(host_id)).status).toBe(400)
    expect((await start(target.name, 'tcp://169.254.169.254:80')).status).toBe(400)
    expect((await user.post(at(job, 'migration/cancel'))).status).toBe(409)
    expect((await start(target.name)).body).toMatchObject({
      status: 'preparing',
      method: 'live',
      target_host: target.id,
    })
    expect((await start(target.name)).body.code).toBe('operation_in_progress')
    const observed = async () => (await user.get(at(job, 'migration/status'))).body
    await until(async () => (await observed()).status === 'completed', { what: 'the move to end' })
    expect(await observed()).toMatchObject({ percent: 100, downtime_ms: 12, error: null })
    expect(await status(job)).toMatchObject({ host_id: target.id, vm_id })
    expect(machineOf(vm_id).memory).toBe(memory)
    await until(() => hosts.filter(host => host.vms.has(vm_id)).length === 1, {
      what: 'exactly one host to have the VM',
    })
    await until(async () => (await status(job)).status === 'running', { what: 'it runs' })
  }, 30_000)

  it('is allowed for administrators only', async () => {
    const job = (await user.get('/v1/apps/app/deployments')).body[0].job_id
    const token = (await user.post('/v1/auth/tokens', { name: 'deployer', scopes: ['read', 'write', 'deploy'] })).body
      .token
    expect(
      (await user.as(token).post(at(job, 'migration/start'), { target_host: 'sim-1', target_uri: '' })).status,
    ).toBe(403)
  })
})

describe('a running VM', () => {
  it('accepts balloon targets only between its minimum memory and its memory size', async () => {
    const job = await deploy()
    const { vm_id } = await status(job)
    expect((await user.get(at(job, 'balloon'))).body).toMatchObject({
      target_memory_mib: 512,
      memory_mib: 512,
      floor_mib: 128,
    })
    expect((await user.post(at(job, 'balloon'), { target_memory_mib: 64 })).status).toBe(400)
    expect((await user.post(at(job, 'balloon'), { target_memory_mib: 513 })).status).toBe(400)
    expect((await user.post(at(job, 'balloon'), { target_memory_mib: 256 })).body).toMatchObject({
      target_memory_mib: 256,
    })
    await until(() => machineOf(vm_id).desired.spec.balloonTargetMib === 256, {
      what: 'the host to receive the target',
    })
    expect((await status(job)).status).toBe('running')
  })

  it('runs a command, whose output the API returns', async () => {
    const job = await deploy()
    const answer = await user.post(at(job, 'exec'), { command: ['echo', 'hello'] })
    expect(answer.body).toEqual({ exit_code: 0, stdout: 'echo hello', stderr: '', truncated: false })
    await user.post(at(job, 'pause'))
    await until(async () => (await status(job)).status === 'paused', { what: 'the VM to be paused' })
    expect((await user.post(at(job, 'exec'), { command: ['true'] })).body.code).toBe('invalid_state')
  })
})

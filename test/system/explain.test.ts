/** Explanations in the API: why a deployment failed, and what a deploy would do. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createFakeHost } from '../../src/agent/hypervisor/fake/host.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

let system: TestSystem
let user: TestUser
const room = { vcpus: 4, memoryMib: 8192, diskMib: 100_000 }
const fake = createFakeHost({ imageMs: 0, bootMs: 5, healthyMs: 20, stopMs: 0, logEveryMs: 0 })
beforeAll(async () => {
  system = await testSystem({ agents: 0, config: { cpuOvercommit: 1, maxRestarts: 2 } })
  user = await system.user()
  await system.addAgent({ capacity: room }, fake)
  await system.addAgent({ capacity: { ...room, vcpus: 1 } })
  await until(
    async () =>
      (await user.get('/v1/admin/hosts')).body.filter((host: { hypervisors: { available: boolean }[] }) =>
        host.hypervisors.some(one => one.available),
      ).length === 2,
    { what: 'both hosts to join' },
  )
})
afterAll(async () => system[Symbol.asyncDispose]())

const counts = async () =>
  (
    await system.database.db.rows({
      name: 'test.counts',
      text: `SELECT (SELECT count(*)::int FROM deployment) AS deployments, (SELECT count(*)::int FROM vm) AS vms,
               (SELECT sum(used_vcpus)::int FROM host) AS used`,
    })
  )[0]

it('a deployment of an app that keeps crashing fails with the last log lines, and its VM is removed', async () => {
  await user.post('/v1/apps', { name: 'loop', git_url: '', drain_timeout: 0 })
  await user.call('PUT', '/v1/apps/loop/env/MOTE_FAKE', { value: 'crash' })
  const { job_id } = (await user.post('/v1/apps/loop/deploy', { image: 'example/app:1' })).body
  const status = async () => (await user.get(`/v1/apps/loop/deployments/${job_id}`)).body
  await until(async () => (await status()).status === 'failed', { what: 'the deployment to fail' })
  const { error_message } = await status()
  // The program has run three times, but the message has only the log lines of its last run.
  expect(error_message).toMatch(/^The program exited with code 1\. Last lines:\nlistening on port[^\n]*$/)
  const { body } = await user.get('/v1/notifications')
  expect(body.notifications[0]).toMatchObject({ kind: 'deployment.failed', body: error_message })
  await until(async () => fake.vms.size === 0, { what: 'the VM to stay stopped' })
  await until(async () => (await counts())?.['vms' as never] === 0, {
    what: 'every VM to be removed',
  })
}, 120_000)

it('a dry run reports the chosen host, why others were rejected and plan usage, and changes nothing', async () => {
  await user.post('/v1/apps', { name: 'plan', git_url: '' })
  const before = await counts()
  const answer = await user.post('/v1/apps/plan/deploy', { image: 'example/app:1', vcpus: 2, dry_run: true })
  const hosts: { id: string; name: string }[] = (await user.get('/v1/admin/hosts')).body
  const [large, small] = [hosts.find(host => host.name === 'host-1'), hosts.find(host => host.name === 'host-2')]
  expect(answer.status).toBe(200)
  expect(answer.body).toMatchObject({
    status: 'dry_run',
    deployment_id: '',
    job_id: '',
    vm_id: '',
    host_id: large?.id,
    message: 'The VM would run on host-1 with fake.',
    dry_run: {
      host_id: large?.id,
      rejected: [{ host_id: small?.id, reason: 'not enough vCPUs' }],
      plan: 'vCPUs 0 + 2, memory 0 + 512 MiB',
    },
  })
  expect(await counts()).toEqual(before)
})

it('a deployment that can never fit is rejected, and one that does not fit now waits with a reason', async () => {
  const never = await user.post('/v1/apps/plan/deploy', { image: 'example/app:1', disk_mib: 200_000 })
  expect(never).toMatchObject({ status: 409, body: { code: 'invalid_state', status: 409 } })
  expect(never.body.error).toContain('No host is large enough for 1 vCPU')
  expect(never.body.error).toContain('2 hosts: not enough disk')
  const unoffered = await user.post('/v1/apps/plan/deploy', { image: 'example/app:1', hypervisor: 'firecracker' })
  expect(unoffered).toMatchObject({
    status: 409,
    body: {
      code: 'unsupported_by_hypervisor',
      error: 'No host offers firecracker. Leave hypervisor out, or name another one.',
    },
  })

  const full = await user.post('/v1/deploy', { app_name: 'full', image: 'example/app:1', vcpus: 4 })
  await until(async () => (await user.get(`/v1/apps/full/deployments/${full.body.job_id}`)).body.status === 'running', {
    what: 'the large host to be full',
  })
  const scale = (desired_replicas: number) => user.call('PATCH', '/v1/apps/full/scale', { desired_replicas })
  const refused = await scale(2)
  expect(refused).toMatchObject({ status: 409, body: { code: 'invalid_state' } })
  expect(refused.body.error).toMatch(/^The hosts can hold at most 1 VM of this size/)
  expect((await scale(1)).body.message).toBeNull()
  const waits = await user.post('/v1/apps/plan/deploy', { image: 'example/app:1', vcpus: 2 })
  expect(waits).toMatchObject({ status: 200, body: { status: 'pending' } })
  expect(waits.body.message).toBe('Accepted, and waiting. No host is suitable now (2 hosts: not enough vCPUs).')
  const { body } = await user.get(`/v1/apps/plan/deployments/${waits.body.job_id}`)
  expect(body).toMatchObject({ status: 'pending', host_id: '' })
  await until(
    async () =>
      (await user.get(`/v1/apps/plan/deployments/${waits.body.job_id}`)).body.error_message ===
      'No host is suitable now (2 hosts: not enough vCPUs).',
    { what: 'the reason for waiting' },
  )
  await user.delete('/v1/apps/full')
  await until(
    async () => (await user.get(`/v1/apps/plan/deployments/${waits.body.job_id}`)).body.status === 'running',
    { what: 'the VM to be placed' },
  )
}, 120_000)

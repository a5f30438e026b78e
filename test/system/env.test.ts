/** Environment variables of an app, and cancellation of a deployment, with a real agent. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

let system: TestSystem
let user: TestUser
beforeAll(async () => {
  system = await testSystem()
  user = await system.user()
  await user.post('/v1/apps', { name: 'app', git_url: '', drain_timeout: 0 })
})
afterAll(async () => system[Symbol.asyncDispose]())

const put = (name: string, value: string) => user.call('PUT', `/v1/apps/app/env/${name}`, { value })
const statusOf = async (job: string) => (await user.get(`/v1/apps/app/deployments/${job}`)).body.status
const deploy = async () => (await user.post('/v1/apps/app/deploy', { image: 'example/app:1' })).body
const reaches = (job: string, status: string) =>
  until(async () => (await statusOf(job)) === status, { what: `${job} to be ${status}` })
const desiredStates = async () => {
  const dir = join(system.dir, 'host-1', 'vms')
  const texts = await Promise.all(
    (await readdir(dir)).map(vm => readFile(join(dir, vm, 'wish.json'), 'utf8').catch(() => '{}')),
  )
  return texts.map(text => JSON.parse(text))
}
const secret = 'correct-horse-battery'

it('values of environment variables are stored encrypted and not listed, and invalid names are rejected', async () => {
  expect((await put('GREETING', secret)).body).toEqual({ status: 'set' })
  expect((await put('1X', 'x')).status).toBe(400)
  expect((await put('PORT', '1')).status).toBe(400)
  const { body } = await user.get('/v1/apps/app/env')
  expect(body).toMatchObject([{ name: 'GREETING' }])
  expect(JSON.stringify(body)).not.toContain(secret)
  const stored = await system.database.db.rows<{ value: Buffer }>({
    name: 'test.env',
    text: 'SELECT value FROM app_env',
  })
  expect(stored[0]?.value.toString('latin1')).not.toContain(secret)
  const audit = await system.database.db
    .rows({ name: 'test.audit', text: 'SELECT details FROM audit_entry' })
    .catch(() => [])
  expect(JSON.stringify(audit)).not.toContain(secret)
})

it('the value of a plain variable is shown until the variable is set as a secret', async () => {
  const listed = async () => (await user.get('/v1/apps/app/env/LEVEL')).body
  const settingsChangedAt = async () => (await user.get('/v1/apps/app')).body.settings_changed_at
  const before = await settingsChangedAt()
  await user.call('PUT', '/v1/apps/app/env/LEVEL', { value: 'debug', secret: false })
  expect(await listed()).toMatchObject({ name: 'LEVEL', secret: false, value: 'debug' })
  expect(Date.parse(await settingsChangedAt())).toBeGreaterThan(Date.parse(before))
  await put('LEVEL', secret)
  expect(await listed()).toMatchObject({ name: 'LEVEL', secret: true, value: null })
  await user.call('PUT', '/v1/apps/app/env/LEVEL', { value: 'debug', secret: false })
  // Sets the value as the previous release does, which has no plain variables, so the variable becomes a secret.
  await system.database.db.rows({
    name: 'test.older',
    text: `UPDATE app_env SET value = value, updated_at = now() WHERE name = 'LEVEL' RETURNING name`,
  })
  expect(await listed()).toMatchObject({ secret: true, value: null })
  expect((await user.call('DELETE', '/v1/apps/app/env/LEVEL')).status).toBe(200)
})

it('a changed variable applies to VMs of the next deployment, never to running VMs', async () => {
  const first = await deploy()
  await reaches(first.job_id, 'running')
  const envs = async () =>
    (await desiredStates()).filter(desired => desired.want === 'running').map(desired => desired.spec.env)
  expect(await envs()).toEqual([{ GREETING: secret, PORT: '8080' }])
  await put('GREETING', 'other')
  await user.post(`/v1/apps/app/deployments/${first.job_id}/pause`)
  await reaches(first.job_id, 'paused')
  await user.post(`/v1/apps/app/deployments/${first.job_id}/resume`)
  await reaches(first.job_id, 'running')
  expect(await envs()).toEqual([{ GREETING: secret, PORT: '8080' }])
  expect((await user.delete('/v1/apps/app/env/GREETING')).body).toEqual({ status: 'deleted' })
  expect((await user.delete('/v1/apps/app/env/GREETING')).status).toBe(404)
  const second = await deploy()
  await reaches(second.job_id, 'running')
  expect((await envs()).at(-1)).toEqual({ PORT: '8080' })
})

it('a deployment that is not healthy yet is cancelled, while the previous one keeps serving', async () => {
  await put('MOTE_FAKE', 'unhealthy')
  const before = (await user.get('/v1/apps/app')).body.active_deployment_id
  const { job_id } = await deploy()
  await reaches(job_id, 'starting')
  expect((await user.post(`/v1/apps/app/deployments/${job_id}/cancel`)).status).toBe(200)
  await reaches(job_id, 'cancelled')
  expect((await user.get('/v1/apps/app')).body.active_deployment_id).toBe(before)
  const active = (await user.get('/v1/deployments/active')).body
  expect(active).toContainEqual(expect.objectContaining({ deployment_id: before, status: 'running' }))
  expect((await user.post(`/v1/apps/app/deployments/${before}/cancel`)).status).toBe(409)
})

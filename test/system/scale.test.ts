// Not repeated on the distribution's PostgreSQL: this file tests agents and gateways, not the database.
/** Scale to zero and back, with a real agent and a real gateway. */
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { viaGateway } from '../support/http.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

let system: TestSystem
let user: TestUser
let hostname: string
beforeAll(async () => {
  system = await testSystem({ config: { idleSeconds: 3 } })
  user = await system.user()
  const app = await user.post('/v1/apps', {
    name: 'sleeper',
    git_url: '',
    min_replicas: 0,
    max_replicas: 3,
    drain_timeout: 0,
  })
  hostname = app.body.hostname
})
afterAll(async () => system[Symbol.asyncDispose]())

const state = async () => (await user.get('/v1/apps/sleeper')).body.scale_state
const reaches = (wanted: string) => until(async () => (await state()) === wanted, { what: `the app to be ${wanted}` })
const ask = () => viaGateway(system.gateway.port, hostname)
const vms = async () =>
  (await system.database.db.rows<{ id: string }>({ name: 'test.vms', text: 'SELECT id FROM vm' })).map(vm => vm.id)

it('an app without requests is suspended, and many concurrent requests wake it once', async () => {
  const { job_id } = (await user.post('/v1/apps/sleeper/deploy', { image: 'example/app:1' })).body
  await until(async () => (await ask()).status === 200, { what: 'it answers' })
  await reaches('scaled_to_zero')
  await until(async () => (await vms()).length === 0, { what: 'every VM to be removed' })
  expect((await user.get(`/v1/apps/sleeper/deployments/${job_id}`)).body).toMatchObject({
    status: 'sleeping',
    scale_state: 'scaled_to_zero',
  })

  const answers = await Promise.all(Array.from({ length: 30 }, ask))
  expect(answers.map(answer => answer.status)).toEqual(answers.map(() => 200))
  expect(await vms()).toHaveLength(1)
  expect(await state()).toBe('active')
}, 120_000)

it('an app is not suspended while requests arrive', async () => {
  await until(async () => (await ask()).status === 200, { what: 'an answer' })
  const [before] = await vms()
  const statuses = new Set<number>()
  const endMs = performance.now() + 5000
  while (performance.now() < endMs) {
    statuses.add((await ask()).status)
    await pause(100)
  }
  expect([...statuses]).toEqual([200])
  expect(await vms()).toEqual([before])
}, 120_000)

it('a suspended app wakes when its minimum number of replicas is raised', async () => {
  await reaches('scaled_to_zero')
  await user.call('PATCH', '/v1/apps/sleeper/scale', { min_replicas: 1 })
  await reaches('active')
  await until(async () => (await vms()).length === 1, { what: 'a VM to start' })
}, 120_000)

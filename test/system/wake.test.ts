/**
 * Not repeated on the distribution's PostgreSQL: this file tests agents and gateways, not the database.
 * Failing wake-ups, and many concurrent requests to a suspended app, with a real gateway and a real agent whose
 * simulated VMs fail on demand.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createFakeHost, type FakeHost } from '../../src/agent/hypervisor/fake/host.ts'
import { viaGateway } from '../support/http.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

const crowd = 1000
const wakeTimeoutMs = 6_000

let system: TestSystem
let user: TestUser
let fake: FakeHost
let hostname: string
let job: string
/** Number of VM starts in the simulated hypervisor, by booting and from a snapshot. */
const starts = { boot: 0, restore: 0 }
const broken = { boot: false, restore: false }

beforeAll(async () => {
  system = await testSystem({ agents: 0, config: { idleSeconds: 5 }, gateway: { wakeTimeoutMs } })
  user = await system.user()
  const host = createFakeHost({ imageMs: 0, bootMs: 5, healthyMs: 0, stopMs: 0, logEveryMs: 0 })
  fake = {
    ...host,
    pass: async (verb, vmId, ms, signal) => {
      if (verb === 'boot' || verb === 'restore') {
        starts[verb]++
        if (broken[verb]) throw new Error('the machine room is on fire')
      }
      return host.pass(verb, vmId, ms, signal)
    },
  }
  await system.addAgent({}, fake)
  const app = { name: 'sleeper', git_url: '', min_replicas: 0, drain_timeout: 0 }
  hostname = (await user.post('/v1/apps', app)).body.hostname
  job = (await user.post('/v1/apps/sleeper/deploy', { image: 'example/app:1' })).body.job_id
  await until(async () => (await ask()).status === 200, { what: 'it answers' })
})
afterAll(async () => system[Symbol.asyncDispose]())

const ask = () => viaGateway(system.gateway.port, hostname)
const status = async () => (await user.get(`/v1/apps/sleeper/deployments/${job}`)).body.status
/** Waits until the app is suspended with its memory stored, and resets the counters. */
async function asleep(): Promise<void> {
  await until(async () => (await status()) === 'sleeping' && fake.vms.size === 0, {
    what: 'it sleeps',
  })
  Object.assign(starts, { boot: 0, restore: 0 })
}

it(`${crowd} concurrent requests wake a suspended app once, and all are answered`, async () => {
  await asleep()
  const answers = await Promise.all(Array.from({ length: crowd }, ask))
  expect(new Set(answers.map(answer => answer.status))).toEqual(new Set([200]))
  expect(new Set(answers.map(answer => answer.headers['x-mote-vm'])).size).toBe(1)
  expect(starts).toEqual({ boot: 1, restore: 1 })
}, 120_000)

it('a wake-up falls back to booting if the snapshot does not start, while the request waits', async () => {
  const before = await ask()
  await asleep()
  broken.restore = true
  const answer = await ask()
  broken.restore = false
  expect(answer.status).toBe(200)
  expect(answer.headers['x-mote-memory']).not.toBe(before.headers['x-mote-memory'])
  expect(starts.restore).toBeGreaterThan(0)
  expect(await status()).toBe('running')
}, 120_000)

it('requests to an app that cannot be woken get 503 with Retry-After, and later ones wake it', async () => {
  await asleep()
  broken.boot = true
  const refused = await ask()
  broken.boot = false
  expect(refused.status).toBe(503)
  expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
  expect(refused.body).toContain('Try again')
  const answer = await until(
    async () => {
      const again = await ask()
      return again.status === 200 && again
    },
    { timeoutMs: 30_000, what: 'the app to wake' },
  )
  expect(answer.headers['x-mote-vm']).toBeDefined()
}, 90_000)

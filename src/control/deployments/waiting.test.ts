/** Tests rollouts for which the hosts lack capacity. */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type ComputeWorld, computeWorld, type TestApp } from '../../../test/support/compute.ts'
import { removeDeployment } from './end.ts'
import { statusOf } from './rules.ts'
import * as store from './store.ts'

let world: ComputeWorld
beforeEach(async () => {
  world = await computeWorld({ rolloutTimeoutSeconds: 60 })
})
afterEach(async () => world[Symbol.asyncDispose]())

const find = async (id: string) => (await store.byId(world.db, id))!
const status = async (id: string) => statusOf(await find(id))
const reaches = (id: string, wanted: string) => world.until(async () => (await status(id)) === wanted)
/** Pretends that five hours have passed, and runs every workflow once more. */
const later = async () => {
  await world.rows(`UPDATE machine SET entered_at = entered_at - interval '5 hours' RETURNING id`)
  await world.rows(`UPDATE vm SET placed_at = placed_at - interval '5 hours' RETURNING id`)
  await world.run('vm', 'deployment')
  await world.hostsMove()
  await world.run('vm', 'deployment')
}
async function running(app: TestApp): Promise<string> {
  const { id } = await world.deploy(app)
  await reaches(id, 'running')
  return id
}

it('a rollout waits for capacity without a time limit, shows the reason, and continues once a host has capacity', async () => {
  await world.addHost({ vcpus: 1 })
  const first = await running(await world.app())
  const { id } = await world.deploy(await world.app())
  await later()
  expect(await status(id)).toBe('pending')
  expect((await find(id)).vms[0]?.placementNote).toContain('not enough vCPUs')
  await world.db.tx(tx => removeDeployment(tx, first))
  await reaches(id, 'running')
})

it('a rollout waits while the current version uses all capacity and keeps serving', async () => {
  const host = await world.addHost({ vcpus: 2 })
  const app = await world.app({ replicas: 2 })
  const old = await world.deploy(app, { replicas: 2 })
  await reaches(old.id, 'running')
  const { id } = await world.deploy(app, { replicas: 2 })
  await later()
  expect(await status(id)).toBe('pending')
  expect(await status(old.id)).toBe('running')
  // A second host has capacity for the new version. The rollout continues without another request.
  await world.addHost({ vcpus: 2 })
  await reaches(id, 'running')
  await reaches(old.id, 'superseded')
  expect(host.vms.size).toBe(0)
})

it('a rollout with one healthy replica waits until a host has capacity for the other replica', async () => {
  await world.addHost({ vcpus: 1 })
  const { id } = await world.deploy(await world.app({ replicas: 2 }), { replicas: 2 })
  await world.until(async () => (await find(id)).vms.some(vm => vm.healthy))
  await later()
  expect(await status(id)).toBe('starting')
  expect((await find(id)).outcome).toBeNull()
  await world.addHost({ vcpus: 1 })
  await reaches(id, 'running')
})

it('a rollout with one unhealthy replica fails after its timeout, even if the other replica waits for capacity', async () => {
  const host = await world.addHost({ vcpus: 1 })
  host.behaviour.set('example/app:1', 'unhealthy')
  const { id } = await world.deploy(await world.app({ replicas: 2 }), { replicas: 2 })
  await world.until(async () => (await find(id)).vms.some(vm => vm.observedState === 'running'))
  await later()
  expect(await status(id)).toBe('failed')
  expect((await find(id)).errorMessage).toContain('did not pass its health check on port 8080 within 60 s')
})

it('the timeout of a rollout starts when its VMs are placed', async () => {
  const host = await world.addHost({ vcpus: 1 })
  host.behaviour.set('example/slow:1', 'unhealthy')
  const first = await running(await world.app())
  const { id } = await world.deploy(await world.app(), { image: 'example/slow:1' })
  await later()
  await world.db.tx(tx => removeDeployment(tx, first))
  await world.until(async () => (await find(id)).vms.some(vm => vm.observedState === 'running'))
  await world.run('deployment')
  expect(await status(id)).toBe('starting')
  await later()
  expect(await status(id)).toBe('failed')
})

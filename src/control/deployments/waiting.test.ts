/** Rollouts for which there is no room (yet). */
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
/** Hours after it was made, everything of it has looked around once more. */
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

it('waits as long as it takes, says why, and is placed when there is room', async () => {
  await world.addHost({ vcpus: 1 })
  const first = await running(await world.app())
  const { id } = await world.deploy(await world.app())
  await later()
  expect(await status(id)).toBe('pending')
  expect((await find(id)).vms[0]?.placementNote).toContain('not enough vCPUs')
  await world.db.tx(tx => removeDeployment(tx, first))
  await reaches(id, 'running')
})

it('waits beside the version that serves and takes its room, which serves on', async () => {
  const host = await world.addHost({ vcpus: 2 })
  const app = await world.app({ replicas: 2 })
  const old = await world.deploy(app, { replicas: 2 })
  await reaches(old.id, 'running')
  const { id } = await world.deploy(app, { replicas: 2 })
  await later()
  expect(await status(id)).toBe('pending')
  expect(await status(old.id)).toBe('running')
  // A second host is enough for both; nothing has to be asked for again.
  await world.addHost({ vcpus: 2 })
  await reaches(id, 'running')
  await reaches(old.id, 'superseded')
  expect(host.vms.size).toBe(0)
})

it('one half that found room and is well waits for the other half', async () => {
  await world.addHost({ vcpus: 1 })
  const { id } = await world.deploy(await world.app({ replicas: 2 }), { replicas: 2 })
  await world.until(async () => (await find(id)).vms.some(vm => vm.healthy))
  await later()
  expect(await status(id)).toBe('starting')
  expect((await find(id)).outcome).toBeNull()
  await world.addHost({ vcpus: 1 })
  await reaches(id, 'running')
})

it('one half that found room and is not well fails the rollout in its time', async () => {
  const host = await world.addHost({ vcpus: 1 })
  host.behaviour.set('example/app:1', 'unhealthy')
  const { id } = await world.deploy(await world.app({ replicas: 2 }), { replicas: 2 })
  await world.until(async () => (await find(id)).vms.some(vm => vm.observedState === 'running'))
  await later()
  expect(await status(id)).toBe('failed')
  expect((await find(id)).errorMessage).toContain('did not pass its health check on port 8080 within 60 s')
})

it('the time of a rollout begins when it has got its room', async () => {
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

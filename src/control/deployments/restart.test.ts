/** Tests what happens when programs end, under each restart policy. */
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { computeWorld, type TestApp } from '../../../test/support/compute.ts'
import { statusOf } from './rules.ts'
import * as store from './store.ts'

const world = await computeWorld({ idleSeconds: 0 })
afterEach(() => world.abandonAll())
afterAll(async () => world[Symbol.asyncDispose]())
const { db } = world
const host = await world.addHost()

type Kind = 'web' | 'worker'
async function app(kind: Kind, policy: string, replicas = 1): Promise<TestApp> {
  const made = await world.app({ replicas })
  await world.rows(
    `UPDATE app SET kind = $2, restart = jsonb_build_object('policy', $3::text, 'max_restarts', 2) WHERE id = $1 RETURNING id`,
    made.id,
    kind,
    policy,
  )
  return made
}
const read = async (id: string) => {
  const found = await store.byId(db, id)
  if (!found) throw new Error('the deployment is gone')
  return found
}
const settled = async (id: string, status: string) => {
  await world.until(async () => statusOf(await read(id)) === status)
  return read(id)
}
const vmsOf = (id: string) => [...host.vms.values()].filter(vm => vm.desired.spec.deploymentId === id)

describe('a worker whose program ends', () => {
  it.each(['on-failure', 'never'])(
    'with code 0 stops its deployment under the policy %s, and leaves no VM',
    async policy => {
      host.behaviour.set('example/batch:1', 'finish')
      const worker = await app('worker', policy, 2)
      const { id } = await world.deploy(worker, { image: 'example/batch:1', replicas: 2 })
      const ended = await settled(id, 'stopped')
      expect(ended.errorMessage).toBe(`The program exited with code 0, and the restart policy is ${policy}.`)
      expect(ended.startedAt).not.toBeNull()
      await world.until(async () => (await read(id)).vms.length === 0)
      expect(vmsOf(id)).toEqual([])
      expect(await world.used()).toEqual({ vcpus: 0, memoryMib: 0, diskMib: 0 })
      const entries = await world.rows<{ action: string }>(
        `SELECT action FROM audit_log WHERE resource_id = $1 AND action LIKE 'deployment.%' ORDER BY id`,
        id,
      )
      expect(entries.map(({ action }) => action)).toEqual(['deployment.live', 'deployment.finished'])
    },
  )

  it('with code 0 in one VM gets no new VM for it, and the other VM keeps running', async () => {
    host.behaviour.delete('example/part:1')
    const worker = await app('worker', 'on-failure', 2)
    const { id } = await world.deploy(worker, { image: 'example/part:1', replicas: 2 })
    await settled(id, 'running')
    const [first, second] = vmsOf(id)
    if (!first || !second) throw new Error('two VMs are needed')
    first.workload = 'exited'
    first.record = { ...first.record, exitCode: 0 }
    await world.until(async () => (await read(id)).finished === 1 && vmsOf(id).length === 1)
    for (let round = 0; round < 5; round++) {
      await world.hostsMove()
      await world.run('deployment', 'vm')
    }
    expect(vmsOf(id).map(vm => vm.vmId)).toEqual([second.vmId])
    expect(statusOf(await read(id))).toBe('running')
  })

  it.each([
    ['on-failure', { maxRestarts: 2, restartOn: 'failure' }],
    ['never', { maxRestarts: 2, restartOn: 'never' }],
    ['always', { maxRestarts: 2 }],
  ])('with a code other than 0 fails its deployment under the policy %s', async (policy, sent) => {
    host.behaviour.set('example/broken:1', 'crash')
    const worker = await app('worker', policy)
    const { id } = await world.deploy(worker, { image: 'example/broken:1' })
    await world.until(async () => Promise.resolve(vmsOf(id).length > 0))
    const { maxRestarts, restartOn } = vmsOf(id)[0]?.desired.spec ?? {}
    expect({ maxRestarts, ...(restartOn ? { restartOn } : {}) }).toEqual(sent)
    expect((await settled(id, 'failed')).errorMessage).toContain('exited with code 1.')
  })
})

it('a web app fails if its program ends with code 0 before it serves', async () => {
  host.behaviour.set('example/batch:1', 'finish')
  const { id } = await world.deploy(await app('web', 'on-failure'), { image: 'example/batch:1' })
  expect((await settled(id, 'failed')).errorMessage).toContain('exited with code 0.')
})

it('a VM whose program failed is not replaced under the restart policy never', async () => {
  host.behaviour.delete('example/part:2')
  const { id } = await world.deploy(await app('worker', 'never', 2), { image: 'example/part:2', replicas: 2 })
  await settled(id, 'running')
  const [first, second] = vmsOf(id)
  if (!first || !second) throw new Error('two VMs are needed')
  first.workload = 'exited'
  first.record = { ...first.record, exitCode: 3 }
  await world.until(async () => (await read(id)).vms.some(vm => vm.observedState === 'crashed'))
  for (let round = 0; round < 5; round++) {
    await world.hostsMove()
    await world.run('deployment', 'vm')
  }
  expect(vmsOf(id)).toHaveLength(2)
  second.workload = 'exited'
  second.record = { ...second.record, exitCode: 0 }
  expect((await settled(id, 'failed')).errorMessage).toContain('exited with code 3.')
})

/**
 * Tests apps with the strategy one-at-a-time (exclusive apps), in which an old VM ends before a new one starts: the
 * number of running VMs never exceeds the number of replicas.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ComputeWorld, computeWorld, type TestApp } from '../../../test/support/compute.ts'
import { abandonVmsOf } from '../vms/index.ts'
import { since } from '../routing/store.ts'
import { leavingFor } from './one-at-a-time.ts'
import { apply } from './verbs.ts'
import { statusOf } from './rules.ts'
import * as store from './store.ts'

let world: ComputeWorld
beforeAll(async () => {
  world = await computeWorld({ rolloutTimeoutSeconds: 300 })
  const roomy = { vcpus: 256, memoryMib: 262_144, diskMib: 1_048_576, migrate: 'none' } as const
  for (const host of [await world.addHost(roomy), await world.addHost(roomy)]) {
    host.behaviour.set('example/bad:1', 'crash')
    host.behaviour.set('example/sick:1', 'unhealthy')
  }
})
afterAll(async () => world[Symbol.asyncDispose]())

const find = async (id: string) => (await store.byId(world.db, id))!
const isActive = async (id: string) => (await find(id)).activeDeploymentId === id
const healthyOf = async (id: string) => (await find(id)).vms.filter(vm => vm.healthy && vm.want === 'running').length
const routeOf = async (app: TestApp) =>
  (await since(world.db, 0)).routes.find(({ hostname }) => hostname === `${app.name}.test`)

/** Number of VMs of the app that at least one host has. A VM that is being moved is on two hosts, but counts once. */
const running = (app: TestApp) =>
  new Set(
    world.hosts.flatMap(host =>
      [...host.vms.values()].filter(vm => vm.desired.spec.appId === app.id).map(vm => vm.desired.vmId),
    ),
  ).size

/**
 * Runs the workflows until `done`. Returns the highest number of VMs that ran, the lowest number of VMs in the route,
 * and the states of the route.
 */
async function watch(app: TestApp, done: () => Promise<boolean>, rounds = 90) {
  const seen = { most: 0, fewestRouted: Number.POSITIVE_INFINITY, states: new Set<string>() }
  await world.until(async () => {
    seen.most = Math.max(seen.most, running(app))
    const route = await routeOf(app)
    seen.fewestRouted = Math.min(seen.fewestRouted, route?.backends.length ?? 0)
    if (route) seen.states.add(route.state)
    return done()
  }, rounds)
  return seen
}

async function oneAtATime(replicas = 1) {
  const app = await world.app({ replicas })
  await world.rows(`UPDATE app SET strategy = 'one-at-a-time' WHERE id = $1 RETURNING id`, app.id)
  const { id } = await world.deploy(app, { replicas })
  const first = await watch(app, async () => (await isActive(id)) && (await healthyOf(id)) === replicas)
  expect(first.most).toBeLessThanOrEqual(replicas)
  return { app, old: id }
}

describe.each([1, 3])('an exclusive app with %i VMs', replicas => {
  it('replaces its VMs one after the other, never runs additional ones, and keeps the other VMs in the route', async () => {
    const { app, old } = await oneAtATime(replicas)
    const next = await world.deploy(app, { replicas })
    expect(next.vmIds).toEqual([])
    const seen = await watch(app, async () => (await isActive(next.id)) && (await find(old)).outcome === 'superseded')
    expect(seen.most).toBe(replicas)
    expect(seen.fewestRouted).toBeGreaterThanOrEqual(replicas - 1)
    expect(await healthyOf(next.id)).toBe(replicas)
    // With one VM, the route is `sleeping` while no VM serves, so that gateways hold requests.
    expect([...seen.states].toSorted()).toEqual(replicas === 1 ? ['live', 'sleeping'] : ['live'])
  })

  it.each(['example/bad:1', 'example/sick:1'])(
    'restores the old version after a deployment of %s has failed',
    async image => {
      const { app, old } = await oneAtATime(replicas)
      const bad = await world.deploy(app, { image, replicas })
      const seen = await watch(app, async () => {
        // The VM of a program that never becomes healthy fails when the rollout's time limit has passed.
        await world.rows(
          `UPDATE vm SET created_at = created_at - interval '1 hour', placed_at = placed_at - interval '1 hour'
         WHERE deployment_id = $1 AND seen_state = 'running' AND NOT healthy RETURNING id`,
          bad.id,
        )
        await world.rows(
          `UPDATE machine SET entered_at = entered_at - interval '1 hour' WHERE id = $1 AND phase = 'rolling' RETURNING id`,
          bad.id,
        )
        return (await find(bad.id)).outcome === 'failed' && (await healthyOf(old)) === replicas
      })
      expect(seen.most).toBeLessThanOrEqual(replicas)
      expect(await isActive(old)).toBe(true)
      expect((await routeOf(app))?.backends).toHaveLength(replicas)
      expect(statusOf(await find(old))).toBe('running')
    },
  )
})

it('a rollback during a rollout never runs more VMs than there are replicas, and ends with only the old version', async () => {
  const { app, old } = await oneAtATime(3)
  const next = await world.deploy(app, { replicas: 3 })
  await watch(app, async () => (await healthyOf(next.id)) === 1)
  await world.db.tx(async tx => apply(tx, 'activate', (await store.byId(tx, old))!))
  const seen = await watch(app, async () => (await find(next.id)).outcome !== null && (await healthyOf(old)) === 3)
  expect(seen.most).toBeLessThanOrEqual(3)
  expect((await routeOf(app))?.backends).toHaveLength(3)
})

it('if two rollouts of an exclusive app overlap, only the VMs of the later one remain', async () => {
  const { app, old } = await oneAtATime(2)
  const second = await world.deploy(app, { replicas: 2 })
  await watch(app, async () => (await healthyOf(second.id)) === 1)
  const third = await world.deploy(app, { replicas: 2 })
  const seen = await watch(
    app,
    async () =>
      (await isActive(third.id)) && (await find(old)).outcome !== null && (await find(second.id)).outcome !== null,
  )
  expect(seen.most).toBeLessThanOrEqual(2)
  expect(await healthyOf(third.id)).toBe(2)
})

it('a crashed VM of an exclusive app is removed before its replacement starts', async () => {
  const { app, old } = await oneAtATime(2)
  const [vm] = (await find(old)).vms
  const host = world.hosts.find(one => one.id === vm!.hostId)!
  host.crash(vm!.id)
  await watch(app, async () => (await healthyOf(old)) === 1)
  const seen = await watch(app, async () => (await healthyOf(old)) === 2)
  expect(seen.most).toBeLessThanOrEqual(2)
})

it('VMs of an exclusive app leave a drained host one at a time, and each is removed before its replacement starts', async () => {
  const { app, old } = await oneAtATime(2)
  const [vm] = (await find(old)).vms
  await world.rows(`UPDATE host SET draining = true, cordoned = true WHERE id = $1 RETURNING id`, vm!.hostId!)
  try {
    const seen = await watch(app, async () => {
      const vms = (await find(old)).vms
      return vms.length === 2 && vms.every(one => one.healthy && one.hostId !== vm!.hostId)
    })
    expect(seen.most).toBeLessThanOrEqual(2)
    expect(seen.fewestRouted).toBeGreaterThanOrEqual(1)
  } finally {
    await world.rows(`UPDATE host SET draining = false, cordoned = false WHERE id = $1 RETURNING id`, vm!.hostId!)
  }
})

it('VMs of an app with the strategy one-at-a-time are replaced without waiting for their lost host', async () => {
  const { app, old } = await oneAtATime(1)
  const [vm] = (await find(old)).vms
  await world.db.tx(tx => abandonVmsOf(tx, vm!.hostId!))
  await watch(app, async () => (await find(old)).vms.some(one => one.id !== vm!.id && one.healthy))
})

it.each([
  [3, 0, ['c']],
  [3, 1, ['b', 'c']],
  [3, 2, ['a', 'b', 'c']],
  [1, 0, ['a', 'b', 'c']],
  [5, 0, []],
])(
  'of the VMs a, b and c, with %i desired replicas and %i healthy VMs of the later rollout, %j are removed',
  (desiredReplicas, arrived, ids) => {
    const one = { want: 'running', observedState: 'running', hostId: 'h', healthy: true } as const
    const vms = ['a', 'b', 'c'].map(id => ({ ...one, id }) as store.DeploymentVm)
    const left = leavingFor({ id: 'd', activeDeploymentId: 'd', desiredReplicas, arrived, vms })
    expect(left.map(vm => vm.id)).toEqual(ids)
  },
)

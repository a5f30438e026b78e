/** Tests what happens to requests for a VM that is about to leave its host. */
import { afterAll, describe, expect, it } from 'vitest'
import { computeWorld, type TestApp } from '../../../test/support/compute.ts'
import type { Route } from '../../contract/gateway.ts'
import { since } from '../routing/store.ts'
import { reserve } from '../hosts/index.ts'
import { cancelMigration, startMigration } from '../migrations/index.ts'
import * as store from '../vms/store.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db, drains } = world
const hosts = [await world.addHost(), await world.addHost()]

interface Move {
  readonly id: string
  readonly app: TestApp
  readonly vmId: string
}

const routeOf = async (app: TestApp): Promise<Route | undefined> =>
  (await since(db, 0)).routes.find(route => route.appId === app.id)
const rowOf = async ({ id }: Move) =>
  (
    await world.rows<{ state: string; held: boolean; released: boolean }>(
      `SELECT state, held_at IS NOT NULL AS held, released_at IS NOT NULL AS released FROM migration WHERE id = $1`,
      id,
    )
  )[0]
/** Records a gateway's report about its open requests to the moving VM. */
const say = ({ id }: Move, open: number, gatewayId = 'one') =>
  drains.record({ gatewayId, atMs: 0, apps: [], leaving: [{ moveId: id, open }] }, Date.now())
const tookSeconds = (move: Move, age: string) =>
  world.rows(`UPDATE migration SET held_at = held_at - $2::interval WHERE id = $1`, move.id, age)
const runsFor = async (rounds: number) => {
  for (let n = 0; n < rounds; n++) await world.until(async () => false, 1).catch(() => undefined)
}

/** Starts a move and returns once gateways hold new requests to the moving VM. */
async function held({ replicas = 1 } = {}): Promise<Move> {
  const app = await world.app({ replicas })
  const { vmIds } = await world.deploy(app, { replicas })
  await world.until(async () => (await routeOf(app))?.backends.length === replicas)
  const vmId = vmIds[0]!
  const vm = (await store.byId(db, vmId))!
  const target = hosts.find(host => host.id !== vm.hostId)!
  const id = await db.tx(async tx => {
    expect(await reserve(tx, target.id, vm)).toBe(true)
    const { projectId, appId, deploymentId, vcpus, memoryMib, diskMib } = vm
    const size = { vcpus, memoryMib, diskMib }
    const ids = { projectId, appId, deploymentId, vmId, sourceHostId: vm.hostId!, targetHostId: target.id }
    return startMigration(tx, { ...ids, ...size, method: 'live' })
  })
  const move = { id, app, vmId }
  say(move, 1)
  await world.until(async () => (await rowOf(move))?.held === true)
  return move
}
const ends = async (move: Move, state: string) => {
  await world.until(async () => (await rowOf(move))?.state === state)
  await world.until(async () => (await routeOf(move.app))?.state === 'live')
  expect((await routeOf(move.app))?.leaving).toBeUndefined()
}

describe('a VM that is about to move to another host', () => {
  it('gets no new requests, and moves once no gateway has open requests to it', async () => {
    const move = await held()
    expect(await routeOf(move.app)).toMatchObject({
      state: 'sleeping',
      backends: [],
      leaving: [{ vmId: move.vmId, moveId: move.id }],
    })
    say(move, 0, 'two')
    await runsFor(5)
    expect(await rowOf(move)).toMatchObject({ state: 'copying', released: false })
    say(move, 0)
    await ends(move, 'completed')
    expect(await rowOf(move)).toMatchObject({ released: true })
    drains.record({ gatewayId: 'two', atMs: 0, apps: [], stops: true }, Date.now())
  })

  it("leaves its traffic to the app's other replica in the meantime", async () => {
    const move = await held({ replicas: 2 })
    const route = await routeOf(move.app)
    expect(route).toMatchObject({ state: 'live', leaving: [{ vmId: move.vmId }] })
    expect(route?.backends.map(one => one.vmId)).not.toContain(move.vmId)
    expect(route?.backends).toHaveLength(1)
    say(move, 0)
    await ends(move, 'completed')
  })

  it('moves after the time limit even if it has open requests', async () => {
    const move = await held()
    await runsFor(3)
    expect(await rowOf(move)).toMatchObject({ released: false })
    await tookSeconds(move, '6 seconds')
    await ends(move, 'completed')
  })

  it('gets no requests on its new host until it is healthy there; gateways hold them until then', async () => {
    const move = await held()
    for (const host of hosts) host.behaviour.set('example/app:1', 'unhealthy')
    say(move, 0)
    await world.until(async () => (await rowOf(move))?.state === 'clearing')
    await runsFor(5)
    expect([(await rowOf(move))?.state, (await routeOf(move.app))?.state]).toEqual(['clearing', 'sleeping'])
    for (const host of hosts) host.behaviour.clear()
    await ends(move, 'completed')
  })

  it('gets requests again as soon as its move is cancelled', async () => {
    const move = await held()
    await db.tx(tx => cancelMigration(tx, move.id))
    await ends(move, 'cancelled')
    expect((await routeOf(move.app))?.backends.map(one => one.vmId)).toEqual([move.vmId])
  })

  it('gets requests again when its old host does not hand it over in time, and still moves later', async () => {
    const move = await held()
    for (const host of hosts) host.reachable = false
    await tookSeconds(move, '21 seconds')
    await world.until(async () => (await routeOf(move.app))?.state === 'live')
    expect((await routeOf(move.app))?.backends.map(one => one.vmId)).toEqual([move.vmId])
    for (const host of hosts) host.reachable = true
    say(move, 0)
    await ends(move, 'completed')
  })

  it('stays on its old host and gets requests again when the agent of that host was stopped', async () => {
    const move = await held()
    const vm = hosts
      .flatMap(host => host.vms.get(move.vmId) ?? [])
      .find(one => one.record.migration?.role === 'source')!
    vm.record = { ...vm.record, migration: { ...vm.record.migration!, phase: 'cancelled' } }
    await ends(move, 'failed')
    expect((await routeOf(move.app))?.backends.map(one => one.vmId)).toEqual([move.vmId])
  })
})

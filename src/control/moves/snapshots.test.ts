/**
 * Crash matrix (each phase with each fault) of moving a VM snapshot together with the volume that it has a copy of:
 * both end up complete on one host, and nothing is left on the other.
 */
import { afterAll, describe, expect, it, vi } from 'vitest'
import { computeWorld, shape } from '../../../test/support/compute.ts'
import { crashMatrix, faults } from '../../../test/support/crash-matrix.ts'
import { copyKey } from '../../../test/support/sim-volumes.ts'
import { cordon, listHosts, recordHeartbeat, reserve } from '../hosts/index.ts'
import { assertReady } from '../vm-operations/restore.ts'
import { startFork } from '../vm-operations/index.ts'
import { createSnapshot, dropSnapshot } from '../vms/index.ts'
import { chooseMove, coMovedOf, moveObstacle, startMigration } from '../migrations/index.ts'
import * as snapshots from '../vms/snapshot-store.ts'
import * as vms from '../vms/store.ts'
import {
  attachVolume,
  createVolume,
  deleteVolume,
  drainedVolumes,
  findVolume,
  leavingVolumes,
  lockRetained,
} from '../volumes/index.ts'
import { moveVolume } from '../volumes/move.ts'
import { cancelMove, drainedSnapshots, newestMove, startSnapshotMove } from './index.ts'
import { liveSnapshotMoves } from './snapshot-store.ts'

// The time limit is long, because each test runs several hundred workflow steps on shared cores.
vi.setConfig({ testTimeout: 120_000 })
const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db, projectId } = world
const hosts = [await world.addHost({ vcpus: 1000 }), await world.addHost({ vcpus: 1000 })]
const other = (id: string) => hosts.find(host => host.id !== id)!
const hostOf = (id: string | null | undefined) => hosts.find(host => host.id === id)!
const rowOf = async (id: string) => (await listHosts(db, 3600)).find(host => host.id === id)!
let made = 0

interface Kept {
  readonly appId: string
  readonly deploymentId: string
  readonly vmId: string
  readonly volumeId: string
  readonly snapshotId: string
  /** Content of the simulated VM's memory at the time when the snapshot was taken. */
  readonly memory: string
}

async function snapshotOf(vmId: string, deploymentId: string): Promise<string> {
  const vm = (await vms.byId(db, vmId))!
  const of = { deploymentId, vmId, hostId: vm.hostId!, kind: 'user' as const, name: `s${++made}` }
  const id = await db.tx(tx => createSnapshot(tx, { ...vm, ...of }))
  await world.until(async () => (await snapshots.byId(db, id))?.state === 'ready')
  return id
}

/**
 * Creates a running VM with a volume. The volume had the content `then` when the snapshot was taken, and has the
 * content `now`.
 */
async function running(): Promise<Kept> {
  const app = await world.app()
  await world.rows(`UPDATE app SET max_replicas = 1 WHERE id = $1 RETURNING id`, app.id)
  const { id: volumeId } = await db.tx(tx => createVolume(tx, { projectId, name: `v${++made}`, sizeMib: 64 }))
  const mount = { mountPoint: '/data', accessMode: 0, by: 'user' } as const
  await db.tx(tx => attachVolume(tx, { projectId, appId: app.id, volumeId, ...mount }))
  const { id: deploymentId, vmIds } = await world.deploy(app)
  const vmId = vmIds[0]!
  await world.until(async () => (await vms.byId(db, vmId))?.healthy === true)
  const host = hostOf((await vms.byId(db, vmId))?.hostId)
  host.storage.write(volumeId, 'then')
  const snapshotId = await snapshotOf(vmId, deploymentId)
  host.storage.write(volumeId, 'now')
  return { appId: app.id, deploymentId, vmId, volumeId, snapshotId, memory: host.vms.get(vmId)!.memory }
}
async function stoppedApp(): Promise<Kept> {
  const one = await running()
  await world.rows(`UPDATE deployment SET want = 'stopped' WHERE id = $1 RETURNING id`, one.deploymentId)
  await world.until(async () => (await vms.byId(db, one.vmId)) === undefined)
  return one
}

/** Expects the snapshot and its volume to be complete on this host, and nothing to be left on the other. */
async function isOn(hostId: string, { snapshotId, volumeId, memory }: Kept): Promise<void> {
  const [here, there] = [hostOf(hostId), other(hostId)]
  await world.until(async () => {
    const [snapshot, volume] = [await snapshots.byId(db, snapshotId), await findVolume(db, volumeId)]
    const rests = snapshot?.moving === false && snapshot.movingTo === null
    return rests && volume?.state === 'ready' && volume.movingTo === null && !there.storage.volumes.has(volumeId)
  })
  expect((await findVolume(db, volumeId))?.hostId).toBe(hostId)
  expect(await snapshots.byId(db, snapshotId)).toMatchObject({ hostId, state: 'ready' })
  expect(here.snapshots.get(snapshotId)).toMatchObject({ state: 'ready', memory })
  expect(here.storage.copies.get(copyKey({ snapshotId, volumeId }))).toBe('then')
  expect(here.storage.volumes.get(volumeId)).toMatchObject({ content: 'now', state: 'ready' })
  expect(there.snapshots.has(snapshotId)).toBe(false)
  expect(there.storage.copies.has(copyKey({ snapshotId, volumeId }))).toBe(false)
}
const stateOf = async (id: string) =>
  (await world.rows<{ state: string }>(`SELECT state FROM vm_snapshot_move WHERE id = $1`, id))[0]?.state

interface Subject extends Kept {
  readonly id: string
  readonly source: string
}
/** The snapshot that all tests of the crash matrix move back and forth, until a test deletes it. */
let traveller: Kept | undefined
async function leave(): Promise<Subject> {
  const known = traveller && (await snapshots.byId(db, traveller.snapshotId))
  if (!traveller || known?.want !== 'present') traveller = await stoppedApp()
  const kept = traveller
  const source = (await findVolume(db, kept.volumeId))!.hostId!
  await db.tx(async tx => moveVolume(tx, kept.volumeId, await rowOf(other(source).id), await rowOf(source)))
  const [id] = await liveSnapshotMoves(db, kept.snapshotId)
  return { ...kept, id: id!, source }
}
const advance = async () => {
  await world.hostsMove()
  await world.run('volume', 'volumeMove')
}
const remove = (s: Subject) => db.tx(tx => dropSnapshot(tx, s.snapshotId))
const check = async (s: Subject, { fault }: { fault: string }) => {
  const arrived = (await stateOf(s.id)) === 'completed'
  if (fault !== 'deletion') return isOn(arrived ? other(s.source).id : s.source, s)
  await world.until(async () => (await snapshots.byId(db, s.snapshotId)) === undefined)
  // The volume moves without the snapshot that was deleted.
  await world.until(async () => {
    const volume = await findVolume(db, s.volumeId)
    const places = hosts.filter(host => host.storage.volumes.has(s.volumeId))
    return (
      volume?.state === 'ready' && volume.movingTo === null && places.length === 1 && places[0]?.id === volume.hostId
    )
  })
  const { hostId } = (await findVolume(db, s.volumeId))!
  expect(hostOf(hostId).storage.volumes.get(s.volumeId)?.content).toBe('now')
  for (const host of hosts) {
    expect(host.snapshots.has(s.snapshotId)).toBe(false)
    expect([...host.storage.copies.keys()].filter(key => key.startsWith(s.snapshotId))).toEqual([])
  }
}
const moved = crashMatrix<Subject>({
  db,
  workflow: world.workflows.snapshotMove,
  makeSubject: leave,
  advance,
  remove,
  check,
  unreachable: { cancelling: 'covered by the cancelled moves', dropping: 'covered by the cancelled moves' },
})
const cancelled = crashMatrix<Subject>({
  db,
  workflow: world.workflows.snapshotMove,
  makeSubject: leave,
  remove,
  check,
  advance: async (s, phase) => {
    if (phase === 'copying') await db.tx(async tx => cancelMove(tx, (await newestMove(tx, s.volumeId))!.id))
    await advance()
  },
  unreachable: Object.fromEntries(
    ['preparing', 'copying', 'clearing'].map(phase => [phase, 'covered by the other matrix']),
  ),
})

describe('crash matrix of the move of a VM snapshot', () => {
  it('contains each phase of the workflow with each fault', () =>
    expect(new Set([...moved, ...cancelled].map(one => one.name)).size).toBe(
      Object.keys(world.workflows.snapshotMove.phases).length * faults.length,
    ))
  describe('a move of a VM snapshot that completes', () => {
    it.each(moved)('ends as usual despite a fault ($name)', ({ run }) => run())
  })
  describe('a move of a VM snapshot that is cancelled', () => {
    it.each(cancelled)('ends as usual despite a fault ($name)', ({ run }) => run())
  })
})

describe('a VM whose snapshots contain copies of its volume', () => {
  const migrate = async (one: Kept) => {
    const vm = (await vms.byId(db, one.vmId))!
    const [source, target] = [await rowOf(vm.hostId!), await rowOf(other(vm.hostId!).id)]
    const coMoved = await coMovedOf(db, vm.id)
    expect(moveObstacle(vm, coMoved)).toBeUndefined()
    const choice = chooseMove(vm, source, target, coMoved)
    if (!('plan' in choice)) throw new Error(choice.why)
    const id = await db.tx(async tx => {
      expect(await reserve(tx, target.id, vm)).toBe(true)
      const ends = { sourceHostId: source.id, targetHostId: target.id, method: choice.plan.method, withVolumes: true }
      return startMigration(tx, { ...vm, vmId: vm.id, ...ends }, choice.plan.volumes)
    })
    return { id, source: source.id, target: target.id }
  }
  const migrationOf = async (id: string) =>
    (
      await world.rows<{ state: string; error: string | null }>(`SELECT state, error FROM migration WHERE id = $1`, id)
    )[0]
  const ends = (id: string) =>
    world.until(async () => /completed|failed|cancelled/.test((await migrationOf(id))?.state ?? ''), 100)

  it('moves to another host with its snapshots, and a fork of one starts there with the content at snapshot time', async () => {
    const one = await running()
    const { id, source, target } = await migrate(one)
    await expect(db.tx(async tx => assertReady((await snapshots.byId(tx, one.snapshotId))!))).rejects.toThrow('moving')
    await ends(id)
    expect(await migrationOf(id)).toMatchObject({ state: 'completed' })
    await isOn(target, one)
    expect(hostOf(source).vms.has(one.vmId)).toBe(false)
    expect((await vms.byId(db, one.vmId))?.hostId).toBe(target)

    const app = await world.app()
    await world.rows(`UPDATE app SET max_replicas = 1 WHERE id = $1 RETURNING id`, app.id)
    const fork = await db.tx(async tx => {
      const snapshot = (await snapshots.byId(tx, one.snapshotId))!
      assertReady(snapshot)
      const of = { ...shape, ipv6Prefix: 'fd00:1:2:3::/64' }
      return startFork(tx, of, snapshot, await lockRetained(tx, snapshot), { app, replicas: 1 })
    })
    const vmId = fork.vmIds[0]!
    await world.until(async () => (await vms.byId(db, vmId))?.healthy === true)
    const forked = hostOf(target).vms.get(vmId)!
    expect(forked.memory).toBe(one.memory)
    expect(hostOf(target).storage.volumes.get(fork.volumes[0]!.volume.id)?.content).toBe('then')
    await world.deploymentsEnd(app)
  })

  it('does not move when the transfer of its snapshots fails, and moves with them at the next attempt', async () => {
    const one = await running()
    const first = await migrate(one)
    await world.until(async () => hostOf(first.source).snapshots.get(one.snapshotId)?.transfer?.phase === 'copying')
    hostOf(first.source).snapshots.get(one.snapshotId)!.transfer = {
      ...hostOf(first.source).snapshots.get(one.snapshotId)!.transfer!,
      phase: 'failed',
      error: 'the connection broke',
    }
    await ends(first.id)
    expect(await migrationOf(first.id)).toMatchObject({
      state: 'failed',
      error: expect.stringContaining('the connection broke'),
    })
    await isOn(first.source, one)
    expect((await vms.byId(db, one.vmId))?.hostId).toBe(first.source)
    const again = await migrate(one)
    await ends(again.id)
    await isOn(again.target, one)
  })

  it('does not move while a snapshot is being taken', async () => {
    const one = await running()
    const vm = (await vms.byId(db, one.vmId))!
    const of = { deploymentId: one.deploymentId, vmId: vm.id, hostId: vm.hostId!, kind: 'user' as const }
    const id = await db.tx(tx => createSnapshot(tx, { ...vm, ...of, name: 'now' }))
    expect(moveObstacle(vm, await coMovedOf(db, vm.id))).toContain('is being changed, snapshotted or cloned')
    await world.until(async () => (await snapshots.byId(db, id))?.state === 'ready')
    expect(moveObstacle(vm, await coMovedOf(db, vm.id))).toBeUndefined()
  })
})

describe('draining a host', () => {
  const round = { now: new Date(), signal: new AbortController().signal }
  const drain = (id: string, draining: boolean) => db.tx(tx => cordon(tx, id, { cordoned: draining, draining }))

  it('moves a detached volume together with its snapshot, and moves a snapshot without volumes after its VM is gone', async () => {
    const one = await stoppedApp()
    const source = (await findVolume(db, one.volumeId))!.hostId!
    await drain(source, true)
    await drainedVolumes(world.deps).run(round)
    expect(await leavingVolumes(db, world.deps, { id: source })).toMatchObject(
      expect.arrayContaining([expect.objectContaining({ volumeId: one.volumeId, state: 'moving' })]),
    )
    await isOn(other(source).id, one)
    await drain(source, false)

    const app = await world.app()
    const { id: deploymentId, vmIds } = await world.deploy(app)
    await world.until(async () => (await vms.byId(db, vmIds[0]!))?.healthy === true)
    const snapshotId = await snapshotOf(vmIds[0]!, deploymentId)
    const from = (await snapshots.byId(db, snapshotId))!.hostId
    await drain(from, true)
    await drainedSnapshots(world.deps).run(round)
    // The VM of the snapshot is still on this host, and could not be restored if the snapshot moved.
    expect(await liveSnapshotMoves(db, snapshotId)).toEqual([])
    await world.rows(`UPDATE deployment SET want = 'stopped' WHERE id = $1 RETURNING id`, deploymentId)
    await world.until(async () => (await vms.byId(db, vmIds[0]!)) === undefined)
    await world.until(async () => {
      await drainedSnapshots(world.deps).run(round)
      return (await liveSnapshotMoves(db, snapshotId)).length > 0
    })
    await world.until(async () => (await snapshots.byId(db, snapshotId))?.moving === false)
    expect(await snapshots.byId(db, snapshotId)).toMatchObject({ hostId: other(from).id, state: 'ready' })
    expect(hostOf(from).snapshots.has(snapshotId)).toBe(false)
    await drain(from, false)
  })

  it('leaves a snapshot that no other host can load, and the report gives the reason', async () => {
    const one = await stoppedApp()
    const source = (await findVolume(db, one.volumeId))!.hostId!
    const target = other(source)
    const heartbeat = target.heartbeat()
    const hypervisors = heartbeat.hypervisors.map(offer => ({ ...offer, snapshotKind: 'another VMM' }))
    await recordHeartbeat(db, { ...heartbeat, hypervisors }, 1)
    await drain(source, true)
    await drainedVolumes(world.deps).run(round)
    const reported = (await leavingVolumes(db, world.deps, { id: source })).find(each => each.volumeId === one.volumeId)
    expect(reported).toMatchObject({ state: 'staying', reason: expect.stringContaining('another VMM') })
    expect(await liveSnapshotMoves(db, one.snapshotId)).toEqual([])
    await recordHeartbeat(db, heartbeat, 1)
    await drainedVolumes(world.deps).run(round)
    await isOn(target.id, one)
    await drain(source, false)
  })
})

describe('two volumes with copies in one VM snapshot', () => {
  it('move in one commit', async () => {
    const one = await running()
    const { id: second } = await db.tx(tx => createVolume(tx, { projectId, name: `v${++made}`, sizeMib: 64 }))
    const source = (await findVolume(db, one.volumeId))!.hostId!
    const mount = { mountPoint: '/more', accessMode: 0, by: 'user' } as const
    await db.tx(tx => attachVolume(tx, { projectId, appId: one.appId, volumeId: second, ...mount }))
    await world.rows(`UPDATE deployment SET want = 'stopped' WHERE id = $1 RETURNING id`, one.deploymentId)
    await world.until(async () => (await vms.byId(db, one.vmId)) === undefined)
    const app = { id: one.appId, projectId, name: '' }
    const { id: deploymentId, vmIds } = await world.deploy(app)
    await world.until(async () => (await vms.byId(db, vmIds[0]!))?.healthy === true)
    const both = await snapshotOf(vmIds[0]!, deploymentId)
    expect((await snapshots.byId(db, both))?.disks).toHaveLength(2)
    await world.rows(`UPDATE deployment SET want = 'stopped' WHERE id = $1 RETURNING id`, deploymentId)
    await world.until(async () => (await vms.byId(db, vmIds[0]!)) === undefined)

    await db.tx(async tx => moveVolume(tx, second, await rowOf(other(source).id), await rowOf(source)))
    const places = async () => {
      const ids = [(await findVolume(db, one.volumeId))?.hostId, (await findVolume(db, second))?.hostId]
      return [...ids, (await snapshots.byId(db, both))?.hostId, (await snapshots.byId(db, one.snapshotId))?.hostId]
    }
    await world.until(async () => {
      const all = new Set(await places())
      expect(all.size).toBe(1)
      return all.has(other(source).id)
    })
    await world.until(async () => !hostOf(source).storage.volumes.has(second) && !hostOf(source).snapshots.has(both))
    const copies = hostOf(other(source).id).storage.copies
    for (const volumeId of [one.volumeId, second])
      expect(copies.has(copyKey({ snapshotId: both, volumeId }))).toBe(true)
    await db.tx(tx => dropSnapshot(tx, both))
    await world.until(async () => (await snapshots.byId(db, both)) === undefined)
    await db.tx(tx => deleteVolume(tx, second)).catch(() => undefined)
  })
})

it('a snapshot has at most one move in progress', async () => {
  const one = await stoppedApp()
  const source = (await findVolume(db, one.volumeId))!.hostId!
  await db.tx(async tx => moveVolume(tx, one.volumeId, await rowOf(other(source).id), await rowOf(source)))
  const again = {
    snapshotId: one.snapshotId,
    targetHostId: other(source).id,
    groupId: one.snapshotId,
    migrationId: null,
  }
  expect(await db.tx(tx => startSnapshotMove(tx, again))).toBeUndefined()
  await isOn(other(source).id, one)
})

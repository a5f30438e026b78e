/**
 * Tests VM snapshots that move together with volumes: time limits of the copies, and control planes of an older version
 * that run at the same time.
 */
import { afterAll, afterEach, expect, it, vi } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { newId } from '../../lib/ids.ts'
import { listHosts, reserve } from '../hosts/index.ts'
import { createSnapshot } from '../vms/index.ts'
import { cancelMigration, chooseMove, coMovedOf, moveObstacle, startMigration } from '../migrations/index.ts'
import * as snapshots from '../vms/snapshot-store.ts'
import * as vms from '../vms/store.ts'
import { attachVolume, createVolume, findVolume } from '../volumes/index.ts'
import { moveVolume } from '../volumes/move.ts'

vi.setConfig({ testTimeout: 120_000 })
const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db, projectId } = world
const hosts = [await world.addHost({ vcpus: 1000 }), await world.addHost({ vcpus: 1000 })]
const rowOf = async (id: string) => (await listHosts(db, 3600)).find(host => host.id === id)!
const hostOf = (id: string | null | undefined) => hosts.find(host => host.id === id)!

/** Creates a running VM with a volume, and a VM snapshot that contains a copy of the volume. */
const app = await world.app()
await world.rows(`UPDATE app SET max_replicas = 1 WHERE id = $1 RETURNING id`, app.id)
const { id: volumeId } = await db.tx(tx => createVolume(tx, { projectId, name: 'v', sizeMib: 64 }))
const mount = { mountPoint: '/data', accessMode: 0, by: 'user' } as const
await db.tx(tx => attachVolume(tx, { projectId, appId: app.id, volumeId, ...mount }))
const { id: deploymentId, vmIds } = await world.deploy(app)
const vmId = vmIds[0]!
await world.until(async () => (await vms.byId(db, vmId))?.healthy === true)
const snapshotId = await keep('kept')

async function keep(name: string): Promise<string> {
  const vm = (await vms.byId(db, vmId))!
  const of = { deploymentId, vmId, hostId: vm.hostId!, kind: 'user' as const, name }
  const id = await db.tx(tx => createSnapshot(tx, { ...vm, ...of }))
  await world.until(async () => (await snapshots.byId(db, id))?.state === 'ready')
  return id
}

async function migrate(): Promise<string> {
  const vm = (await vms.byId(db, vmId))!
  const [source, target] = [await rowOf(vm.hostId!), await rowOf(hosts.find(host => host.id !== vm.hostId)!.id)]
  const coMoved = await coMovedOf(db, vmId)
  const choice = chooseMove(vm, source, target, coMoved)
  if (!('plan' in choice)) throw new Error(choice.why)
  const { method, volumes } = choice.plan
  return db.tx(async tx => {
    expect(await reserve(tx, target.id, vm)).toBe(true)
    const ends = { sourceHostId: source.id, targetHostId: target.id, method, withVolumes: true }
    return startMigration(tx, { ...vm, vmId, ...ends }, volumes)
  })
}
const migrationOf = async (id: string) =>
  (
    await world.rows<{ state: string; want: string; error: string | null }>(
      `SELECT state, want, error FROM migration WHERE id = $1`,
      id,
    )
  )[0]!
const older = (id: string, minutes: number) =>
  world.rows(
    `UPDATE machine SET entered_at = entered_at - $2 * interval '1 minute' WHERE kind = 'migration' AND id = $1 RETURNING id`,
    ...[id, minutes],
  )
const moveOfSnapshot = async () =>
  (
    await world.rows<{ id: string; state: string; error: string | null }>(
      `SELECT id, state, error FROM vm_snapshot_move WHERE snapshot_id = $1 ORDER BY id DESC LIMIT 1`,
      snapshotId,
    )
  )[0]!

let last: string | undefined
const begin = async () => (last = await migrate())
afterEach(() => settle())
async function settle(): Promise<void> {
  const id = last
  last = undefined
  if (id === undefined) return
  await db.tx(tx => cancelMigration(tx, id))
  await world.until(async () => {
    const vm = await vms.byId(db, vmId)
    const snapshot = await snapshots.byId(db, snapshotId)
    return (
      /completed|failed|cancelled/.test((await migrationOf(id)).state) &&
      (vm?.healthy ?? false) &&
      snapshot?.moving === false &&
      (await world.rows(`SELECT FROM volume_move WHERE ended_at IS NULL`)).length === 0
    )
  }, 100)
}

it('a copy that takes hours completes and raises no alert', async () => {
  const id = await begin()
  await older(id, 5 * 60)
  const [workflow] = await world.rows<{ alarmed: boolean }>(
    `SELECT deadline < now() + interval '5 hours' AS alarmed FROM machine WHERE kind = 'migration' AND id = $1`,
    id,
  )
  expect(workflow?.alarmed).toBe(false)
  await world.until(async () => /completed|failed|cancelled/.test((await migrationOf(id)).state), 100)
  expect(await migrationOf(id)).toMatchObject({ state: 'completed', error: null })
})

it('the more bytes a copy has, the later it raises an alert', async () => {
  const limitOf = async (kind: string) =>
    (
      await world.rows<{ hours: number }>(
        `SELECT (extract(epoch FROM deadline - entered_at) / 3600)::float8 AS hours FROM machine WHERE kind = $1 AND phase = 'copying'`,
        kind,
      )
    )[0]!.hours
  const copying = async () => {
    const id = await begin()
    for (let round = 0; (await moveOfSnapshot()).state !== 'copying'; round++) {
      expect(round).toBeLessThan(20)
      await world.hostsMove()
      await world.run('snapshotMove')
    }
    return id
  }
  await copying()
  const little = await limitOf('vm-snapshot-move')
  expect(little).toBeLessThan(2.1)
  await settle()
  const bytes = `UPDATE vm_snapshot SET size_bytes = $2 WHERE id = $1 RETURNING id`
  await world.rows(bytes, snapshotId, 2 ** 40)
  await copying()
  // The additional time is that for 1 TiB in three passes at 20 MiB per second.
  expect((await limitOf('vm-snapshot-move')) - little).toBeCloseTo((3 * 2 ** 20) / 20 / 3600, 1)
  await world.rows(bytes, snapshotId, 4096)
})

it('a copy that takes longer than a day is cancelled', async () => {
  const id = await begin()
  await older(id, 25 * 60)
  await world.run('migration')
  expect(await migrationOf(id)).toMatchObject({ want: 'cancel', error: expect.stringContaining('snapshots') })
})

it('after a quick copy, the migration is cancelled if the target is not ready within two minutes', async () => {
  const id = await begin()
  // The workflow that moves the volume is not run in this test, so the target never becomes ready.
  for (let round = 0; (await moveOfSnapshot()).state !== 'complete'; round++) {
    expect(round).toBeLessThan(20)
    await world.run('snapshotMove')
    await world.hostsMove()
  }
  await world.run('migration')
  await world.run('migration')
  expect(await migrationOf(id)).toMatchObject({ want: 'move', error: null })
  await world.rows(`UPDATE migration SET luggage_at = luggage_at - interval '3 minutes' WHERE id = $1 RETURNING id`, id)
  await older(id, 3)
  await world.run('migration')
  expect(await migrationOf(id)).toMatchObject({
    want: 'cancel',
    error: 'the target host was not ready to receive the VM in time',
  })
})

it('a stalled copy is cancelled, but not one that makes progress', async () => {
  const id = await begin()
  for (let round = 0; (await moveOfSnapshot()).state !== 'copying'; round++) {
    expect(round).toBeLessThan(20)
    await world.hostsMove()
    await world.run('snapshotMove')
  }
  const { id: moveId } = await moveOfSnapshot()
  const source = hostOf((await snapshots.byId(db, snapshotId))?.hostId)
  const quiet = `UPDATE vm_snapshot_move SET progressed_at = now() - interval '6 minutes' WHERE id = $1 RETURNING id`
  const nothing = { percent: 0, transferredBytes: 0, totalBytes: 4096, error: null, uri: null }
  const transfer = { transferId: moveId, role: 'source', phase: 'copying', ...nothing } as const
  source.snapshots.get(snapshotId)!.transfer = { ...transfer, percent: 1 }
  await world.rows(quiet, moveId)
  await world.run('snapshotMove')
  expect(await moveOfSnapshot()).toMatchObject({ state: 'copying', error: null })
  // The workflow step has recorded the progress, so the copy does not count as stalled.
  await world.run('snapshotMove')
  expect(await moveOfSnapshot()).toMatchObject({ state: 'copying', error: null })
  await world.rows(quiet, moveId)
  await world.run('snapshotMove')
  expect((await moveOfSnapshot()).error).toBe('the copy made no progress')
  await world.until(async () => (await migrationOf(id)).state === 'failed', 100)
  expect((await migrationOf(id)).error).toContain('the copy made no progress')
})

it('snapshots do not move while an older control plane is running', async () => {
  const olderRunner = newId()
  await db.withLockedSession(`runner ${olderRunner}`, async () => {
    const vm = (await vms.byId(db, vmId))!
    expect(moveObstacle(vm, await coMovedOf(db, vmId))).toContain('a control plane of an older version is running')
    await expect(migrate()).rejects.toThrow()
    expect((await snapshots.byId(db, snapshotId))?.movingTo).toBeNull()
    // A runner of the current version registers the kinds of its workflows, so it no longer counts as older.
    await world.rows(
      `INSERT INTO runner (id, kinds) VALUES ($1, ARRAY['migration', 'vm-snapshot-move']) RETURNING id`,
      olderRunner,
    )
    expect(moveObstacle(vm, await coMovedOf(db, vmId))).toBeUndefined()
  })
})

it('the database refuses to switch volumes without their snapshots, as an older control plane would', async () => {
  const id = await begin()
  const commit = db.tx(tx =>
    tx.run(
      {
        name: 'test.olderCommit',
        text: `UPDATE volume_move SET state = 'clearing' WHERE migration_id = $1`,
      },
      [id],
    ),
  )
  await expect(commit).rejects.toThrow('without the snapshots')
})

it('a snapshot that an older control plane marks for deletion is removed from its host, before and after a move', async () => {
  const markedForDeletion = async (snapshot: string) => {
    const host = hostOf((await snapshots.byId(db, snapshot))?.hostId)
    await world.rows(`UPDATE vm_snapshot SET want = 'absent' WHERE id = $1 RETURNING id`, snapshot)
    await world.until(async () => (await snapshots.byId(db, snapshot)) === undefined)
    expect(host.snapshots.has(snapshot)).toBe(false)
  }
  await markedForDeletion(await keep('unmoved'))
  const moved = await keep('moved')
  const source = (await snapshots.byId(db, moved))!.hostId
  const id = await begin()
  await world.until(async () => (await migrationOf(id)).state === 'completed', 100)
  await world.until(async () => (await snapshots.byId(db, moved))?.moving === false, 100)
  expect((await snapshots.byId(db, moved))?.hostId).not.toBe(source)
  await markedForDeletion(moved)
})

it("if an older control plane cancels the move of a detached volume, the volume's snapshot stays with it on the source", async () => {
  await world.rows(`UPDATE deployment SET want = 'stopped' WHERE id = $1 RETURNING id`, deploymentId)
  await world.until(async () => (await vms.byId(db, vmId)) === undefined)
  const source = (await findVolume(db, volumeId))!.hostId!
  const target = hosts.find(host => host.id !== source)!
  await db.tx(async tx => moveVolume(tx, volumeId, await rowOf(target.id), await rowOf(source)))
  await world.until(async () => (await moveOfSnapshot()).state === 'complete')
  await world.rows(`UPDATE volume_move SET want = 'cancel' WHERE ended_at IS NULL RETURNING id`)
  await world.until(async () => (await snapshots.byId(db, snapshotId))?.moving === false)
  expect((await findVolume(db, volumeId))?.hostId).toBe(source)
  expect(await snapshots.byId(db, snapshotId)).toMatchObject({ hostId: source, state: 'ready' })
})

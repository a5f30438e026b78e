/** Tests edge cases of moving VM snapshots: leftovers on other hosts, use during the move, and ordering. */
import { afterAll, describe, expect, it, vi } from 'vitest'
import { computeWorld, shape } from '../../../test/support/compute.ts'
import { until } from '../../../test/support/wait.ts'
import { newId } from '../../lib/ids.ts'
import { cordon, listHosts, reserve } from '../hosts/index.ts'
import { startFork } from '../vm-operations/index.ts'
import { deleteSnapshot } from '../vm-operations/snapshots.ts'
import { createSnapshot, dropSnapshot, lockSnapshot } from '../vms/index.ts'
import { startMigration } from '../migrations/index.ts'
import * as snapshots from '../vms/snapshot-store.ts'
import * as vms from '../vms/store.ts'
import { attachVolume, createVolume, createVolumeSnapshot, drainedVolumes, findVolume } from '../volumes/index.ts'
import { moveVolume } from '../volumes/move.ts'
import { cancelMove, drainedSnapshots, newestMove, startSnapshotMove } from './index.ts'
import { cancel, liveSnapshotMoves, snapshotMove } from './snapshot-store.ts'

// The time limit is long, because each test runs several hundred workflow steps on shared cores.
vi.setConfig({ testTimeout: 120_000 })
const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db, projectId } = world
const hosts = [await world.addHost(), await world.addHost(), await world.addHost()]
const others = (id: string) => hosts.filter(host => host.id !== id)
const hostOf = (id: string) => hosts.find(host => host.id === id)!
const rowOf = async (id: string) => (await listHosts(db, 3600)).find(host => host.id === id)!
const round = { now: new Date(), signal: new AbortController().signal }
const drain = (id: string, draining: boolean) => db.tx(tx => cordon(tx, id, { cordoned: draining, draining }))
const loses = (id: string) => world.rows(`UPDATE host SET lost_at = now() WHERE id = $1 RETURNING id`, id)
const finds = (id: string) =>
  world.rows(`UPDATE host SET lost_at = NULL, removed_at = NULL WHERE id = $1 RETURNING id`, id)
let made = 0

interface Kept {
  readonly deploymentId: string
  readonly vmId: string
  readonly snapshotId: string
  readonly source: string
}

async function keep(app: { readonly id: string; readonly projectId: string; readonly name: string }): Promise<Kept> {
  const { id: deploymentId, vmIds } = await world.deploy(app)
  const vmId = vmIds[0]!
  await world.until(async () => (await vms.byId(db, vmId))?.healthy === true)
  const vm = (await vms.byId(db, vmId))!
  const of = { deploymentId, vmId, hostId: vm.hostId!, kind: 'user' as const, name: `s${++made}` }
  const snapshotId = await db.tx(tx => createSnapshot(tx, { ...vm, ...of }))
  await world.until(async () => (await snapshots.byId(db, snapshotId))?.state === 'ready')
  return { deploymentId, vmId, snapshotId, source: vm.hostId! }
}
async function ends({ deploymentId, vmId }: Kept): Promise<void> {
  await world.rows(`UPDATE deployment SET want = 'stopped' WHERE id = $1 RETURNING id`, deploymentId)
  await world.until(async () => (await vms.byId(db, vmId)) === undefined)
}
/** Creates a snapshot of a VM without volumes, and removes the VM. */
async function alone(): Promise<Kept> {
  const one = await keep(await world.app())
  await ends(one)
  return one
}
/** Creates a snapshot of a VM with a volume, and then a snapshot of the volume alone. */
async function withVolume() {
  const app = await world.app()
  await world.rows(`UPDATE app SET max_replicas = 1 WHERE id = $1 RETURNING id`, app.id)
  const { id: volumeId } = await db.tx(tx => createVolume(tx, { projectId, name: `v${++made}`, sizeMib: 64 }))
  const mount = { mountPoint: '/data', accessMode: 0, by: 'user' } as const
  await db.tx(tx => attachVolume(tx, { projectId, appId: app.id, volumeId, ...mount }))
  const one = await keep(app)
  const younger = await db.tx(tx => createVolumeSnapshot(tx, volumeId, { name: `n${++made}`, kind: 'user' }))
  const { id: youngerId } = younger
  await world.until(async () => {
    const [row] = await world.rows<{ state: string }>(`SELECT state FROM volume_snapshot WHERE id = $1`, youngerId)
    return row?.state === 'ready'
  })
  return { ...one, volumeId, youngerId }
}
const leaves = (snapshotId: string, targetHostId: string) =>
  db.tx(tx => startSnapshotMove(tx, { snapshotId, targetHostId, groupId: newId(), migrationId: null }))
const landsOn = (snapshotId: string, hostId: string) =>
  world.until(async () => {
    const now = await snapshots.byId(db, snapshotId)
    return now?.hostId === hostId && now.movingTo === null
  })
const isGone = (snapshotId: string) =>
  world.until(async () => (await snapshots.byId(db, snapshotId)) === undefined && havingIt(snapshotId).length === 0)
const havingIt = (snapshotId: string) => hosts.filter(host => host.snapshots.has(snapshotId)).map(host => host.id)

describe('snapshots that move with a volume', () => {
  it('are sent oldest first, VM snapshots and volume snapshots alike, whether the volume is attached or not', async () => {
    const one = await withVolume()
    const [target] = others(one.source)
    const vm = (await vms.byId(db, one.vmId))!
    const ended = await db.tx(async tx => {
      expect(await reserve(tx, target!.id, vm)).toBe(true)
      const places = { sourceHostId: one.source, targetHostId: target!.id, method: 'live' as const, withVolumes: true }
      const of = { ...vm, vmId: vm.id, ...places }
      return startMigration(tx, of, [{ volumeId: one.volumeId, pool: 'local' }])
    })
    await world.until(async () => (await vms.byId(db, one.vmId))?.outgoing !== null)
    expect((await vms.byId(db, one.vmId))?.outgoing?.volumes).toEqual([
      { volumeId: one.volumeId, snapshots: [one.snapshotId, one.youngerId] },
    ])
    await world.until(
      async () => (await world.rows(`SELECT FROM migration WHERE id = $1 AND ended_at IS NULL`, ended)).length === 0,
      100,
    )
    await ends(one)
    const source = (await findVolume(db, one.volumeId))!.hostId!
    await db.tx(async tx => moveVolume(tx, one.volumeId, await rowOf(others(source)[0]!.id), await rowOf(source)))
    expect((await newestMove(db, one.volumeId))?.snapshots).toEqual([one.snapshotId, one.youngerId])
    await landsOn(one.snapshotId, others(source)[0]!.id)
  })

  it('wait for the volume after their own copy is complete, even if the old host is lost in the meantime', async () => {
    const one = await withVolume()
    await ends(one)
    const [target] = others(one.source)
    await db.tx(async tx => moveVolume(tx, one.volumeId, await rowOf(target!.id), await rowOf(one.source)))
    const [id] = await liveSnapshotMoves(db, one.snapshotId)
    const move = () => snapshotMove(db, id!)
    for (let n = 0; n < 20 && (await move())?.state !== 'complete'; n++) {
      await world.hostsMove()
      await world.run('snapshotMove')
    }
    await loses(one.source)
    for (let n = 0; n < 3; n++) await world.run('snapshotMove')
    expect(await move()).toMatchObject({ state: 'complete', want: 'move' })
    await finds(one.source)
    await landsOn(one.snapshotId, target!.id)
  })
})

describe('a snapshot whose old host does not remove it', () => {
  it('can move to a third host but not back, and is finally removed from the old host', async () => {
    const one = await alone()
    const [second, third] = others(one.source)
    const first = await leaves(one.snapshotId, second!.id)
    await world.until(async () => (await snapshotMove(db, first!))?.state === 'clearing')
    await loses(one.source)
    await landsOn(one.snapshotId, second!.id)
    expect(await leaves(one.snapshotId, one.source)).toBeUndefined()
    expect(await leaves(one.snapshotId, third!.id)).toBeDefined()
    await landsOn(one.snapshotId, third!.id)
    await world.until(async () => havingIt(one.snapshotId).length === 2)
    expect(havingIt(one.snapshotId).toSorted()).toEqual([one.source, third!.id].toSorted())
    expect(await liveSnapshotMoves(db, one.snapshotId)).toEqual([first])
    await finds(one.source)
    await world.until(async () => (await snapshots.byId(db, one.snapshotId))?.moving === false)
    expect(havingIt(one.snapshotId)).toEqual([third!.id])
    expect(hostOf(third!.id).snapshots.get(one.snapshotId)?.state).toBe('ready')
    expect(await leaves(one.snapshotId, one.source)).toBeDefined()
    await landsOn(one.snapshotId, one.source)
  })

  it('keeps its row until the old host has removed the files, even if the host that it moved to was removed earlier', async () => {
    const one = await alone()
    const [target] = others(one.source)
    const id = await leaves(one.snapshotId, target!.id)
    await world.until(async () => (await snapshotMove(db, id!))?.state === 'clearing')
    await loses(one.source)
    await landsOn(one.snapshotId, target!.id)
    await world.rows(`UPDATE host SET removed_at = now() WHERE id = $1 RETURNING id`, target!.id)
    await db.tx(tx => dropSnapshot(tx, one.snapshotId))
    for (let n = 0; n < 4; n++) await world.run('snapshot', 'snapshotMove')
    expect(await snapshots.byId(db, one.snapshotId)).toMatchObject({ want: 'absent' })
    await finds(one.source)
    await world.until(async () => (await snapshots.byId(db, one.snapshotId)) === undefined)
    expect(havingIt(one.snapshotId)).toEqual([target!.id])
    await finds(target!.id)
  })

  it('can be deleted after the host that it moved to has lost it', async () => {
    const one = await alone()
    const [target] = others(one.source)
    const { name } = (await snapshots.byId(db, one.snapshotId))!
    const id = await leaves(one.snapshotId, target!.id)
    await expect(db.tx(tx => deleteSnapshot(tx, one.deploymentId, name))).rejects.toThrow('moving to another host')
    await world.until(async () => (await snapshotMove(db, id!))?.state === 'clearing')
    hostOf(target!.id).snapshots.get(one.snapshotId)!.received = 'another'
    for (let n = 0; n < 3; n++) {
      await world.run('snapshotMove')
      await world.hostsMove()
    }
    expect(await snapshots.byId(db, one.snapshotId)).toMatchObject({ hostId: target!.id, movingTo: target!.id })
    await db.tx(tx => deleteSnapshot(tx, one.deploymentId, name))
    await isGone(one.snapshotId)
  })
})

it('a snapshot does not move if it was forked while the move waited for its lock', async () => {
  const one = await alone()
  const { name } = (await snapshots.byId(db, one.snapshotId))!
  const app = await world.app()
  const late = await db.tx(async tx => {
    const snapshot = (await lockSnapshot(tx, one.deploymentId, name))!
    // Returned in an array, so that it is not awaited here: the move waits until this transaction ends.
    const begun = leaves(one.snapshotId, others(one.source)[0]!.id)
    const waits = () =>
      world.rows(`SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
    await until(async () => (await waits()).length > 0, { what: 'the move waits for the lock' })
    await startFork(tx, { ...shape, ipv6Prefix: 'fd00:1:2:3::/64' }, snapshot, [], { app, replicas: 1 })
    return [begun]
  })
  expect(await late[0]).toBeUndefined()
  await world.deploymentsEnd(app)
})

describe('draining a host', () => {
  /** Makes all snapshots but these impossible to load on other hosts, and sorts those others first. */
  const onlyThese = (...ids: string[]) =>
    world.rows(
      `UPDATE vm_snapshot SET made_by = 'another VMM', size_bytes = 0 WHERE id <> ALL($1::uuid[]) RETURNING id`,
      ids,
    )

  it('skips snapshots that no other host can load, and continues with the next one after an error', async () => {
    const [one, two] = [await alone(), await alone()]
    const { source } = one
    if (two.source !== source) {
      await leaves(two.snapshotId, source)
      await world.until(async () => (await snapshots.byId(db, two.snapshotId))?.moving === false)
    }
    await world.rows(
      `INSERT INTO vm_snapshot (id, project_id, app_id, deployment_id, vm_id, host_id, kind, name, state, vcpus, memory_mib, disk_mib)
       SELECT gen_random_uuid(), project_id, app_id, gen_random_uuid(), gen_random_uuid(), host_id, 'user', 'foreign', 'ready', 1, 1, 1
       FROM vm_snapshot, generate_series(1, 60) WHERE id = $1 RETURNING id`,
      one.snapshotId,
    )
    await onlyThese(one.snapshotId, two.snapshotId)
    await world.rows(`UPDATE vm_snapshot SET size_bytes = 1 WHERE made_by = 'sim' RETURNING id`)
    await drain(source, true)
    let broken = 0
    const breaking: typeof db = {
      ...db,
      tx: work => (broken++ === 0 ? Promise.reject(new Error('the connection broke')) : db.tx(work)),
    }
    const deps = { ...world.deps, db: breaking }
    expect(await drainedSnapshots(deps).run(round)).toEqual({ found: 2, moved: 1, refused: 1 })
    expect(await drainedSnapshots(deps).run(round)).toEqual({ found: 1, moved: 1, refused: 0 })
    for (const { snapshotId } of [one, two])
      await world.until(async () => (await snapshots.byId(db, snapshotId))?.moving === false)
    for (const { snapshotId } of [one, two]) expect((await snapshots.byId(db, snapshotId))?.hostId).not.toBe(source)
    await drain(source, false)
  })

  const fails = (id: string) =>
    world.rows(
      `WITH v AS (UPDATE volume_move SET state = 'failed', ended_at = now() - interval '15 minutes' WHERE id = $1)
       UPDATE vm_snapshot_move SET state = 'failed', ended_at = now() - interval '15 minutes' WHERE id = $1 RETURNING id`,
      id,
    )

  it('tries another target for a volume after a failed move', async () => {
    const one = await withVolume()
    await ends(one)
    await drain(one.source, true)
    const tried = new Set<string>()
    for (let n = 0; n < 2; n++) {
      await drainedVolumes(world.deps).run(round)
      const move = (await newestMove(db, one.volumeId))!
      tried.add(move.targetHostId)
      await db.tx(tx => cancelMove(tx, move.id))
      await world.until(async () => (await newestMove(db, one.volumeId))?.endedAt !== null)
      await world.until(async () => (await snapshots.byId(db, one.snapshotId))?.moving === false)
      await fails(move.id)
    }
    expect(tried.size).toBe(2)
    await drain(one.source, false)
  })

  it('tries another target for a snapshot after a failed move', async () => {
    const one = await alone()
    await onlyThese(one.snapshotId)
    await drain(one.source, true)
    const tried = new Set<string>()
    for (let n = 0; n < 2; n++) {
      await drainedSnapshots(world.deps).run(round)
      const [id] = await liveSnapshotMoves(db, one.snapshotId)
      tried.add((await snapshotMove(db, id!))!.targetHostId)
      await db.tx(tx => cancel(tx, id!))
      await world.until(async () => (await snapshots.byId(db, one.snapshotId))?.moving === false)
      await fails(id!)
    }
    expect(tried.size).toBe(2)
    await drain(one.source, false)
  })
})

/** Spare branches: hidden until they are claimed, and removed when they are no longer useful. */
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { usage } from '../deployments/create-store.ts'
import { projectUsage } from '../volumes/store.ts'
import { createBranch, createDatabase, mainBranch, startDeletingDatabase } from './create.ts'
import { shapeOf, statusOf } from './rules.ts'
import { takeSnapshot } from './snapshot-workflow.ts'
import * as snapshots from './snapshot-store.ts'
import * as spares from './spare-store.ts'
import { databaseSpares, dropSpares } from './spares.ts'
import * as store from './store.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db, deps, projectId } = world
const host = await world.addHost({ vcpus: 1000, memoryMib: 100_000 })

const sweep = (minutes = 30) => {
  const databases = { ...deps.config.databases, spareMinutes: minutes }
  const { run } = databaseSpares({ ...deps, config: { ...deps.config, databases } })
  return run({ signal: new AbortController().signal, now: new Date() })
}
const phaseOf = async (id: string) => (await store.branch(db, id))?.phase
const current = async (databaseId: string) => (await store.current(db, [databaseId])).get(databaseId)!
const spareOf = async (databaseId: string) =>
  (await world.rows<{ id: string }>(`SELECT id FROM branch WHERE database_id = $1 AND kind = 'spare'`, databaseId))[0]
    ?.id
const spanned = async (branchId: string) =>
  (
    await world.rows(
      `SELECT FROM usage_span s JOIN vm v ON v.id = s.vm_id JOIN branch b ON b.app_id = v.app_id
       WHERE b.id = $1 AND s.ended_at IS NULL`,
      branchId,
    )
  ).length
const planUse = () =>
  db.tx(async tx => [
    await usage(tx, projectId, (await current(databaseId)).appId ?? ''),
    await projectUsage(tx, projectId),
  ])

let made = 0
let databaseId = ''
async function snapshot(name: string): Promise<string> {
  const b = await current(databaseId)
  const { id } = await db.tx(tx => takeSnapshot(tx, b, { name, kind: 'user' }))
  await world.until(async () => (await snapshots.byId(db, id))?.state === 'ready')
  return id
}
const ask = (snapshotId: string, name: string) =>
  db.tx(tx => createBranch(deps, tx, { databaseId, projectId, name, fromSnapshotId: snapshotId }))
async function standing(): Promise<string> {
  await sweep()
  const id = (await spareOf(databaseId)) ?? ''
  await world.until(async () => (await phaseOf(id)) === 'standing' && (await vmOf(id))?.observed === 'paused')
  return id
}
const vmOf = async (branchId: string) =>
  (
    await world.rows<{ id: string; want: string; observed: string }>(
      `SELECT v.id, v.want, v.seen_state AS observed FROM vm v JOIN branch b ON b.app_id = v.app_id WHERE b.id = $1`,
      branchId,
    )
  )[0]
const gone = (id: string) => world.until(async () => (await store.branch(db, id)) === undefined)

beforeEach(async () => {
  if (databaseId !== '') {
    const before = databaseId
    await db.tx(tx => startDeletingDatabase(tx, before))
    await world.until(async () => (await store.byId(db, before)) === undefined)
  }
  const shape = shapeOf({ engine: 'postgres' }, [15])
  databaseId = await db.tx(tx => createDatabase(deps, tx, { ...shape, projectId, name: `db-${++made}` }))
  await world.until(async () => statusOf(await current(databaseId)) === 'running')
})

describe('a spare branch', { timeout: 60_000 }, () => {
  it('is created for the newest snapshot, and is paused, hidden and not billed', async () => {
    expect(await sweep()).toEqual({ needless: 0, made: 0 })
    await snapshot('one')
    const used = await planUse()
    const id = await standing()
    expect((await store.branches(db, databaseId)).map(({ name }) => name)).toEqual([mainBranch])
    expect(await planUse()).toEqual(used)
    expect(await spanned(id)).toBe(0)
    expect(await spanned((await current(databaseId)).id)).toBe(1)
    expect(await sweep()).toEqual({ needless: 0, made: 0 })
  })

  it('becomes the next branch that is requested of the snapshot, in the same VM, and another spare is created', async () => {
    const snapshotId = await snapshot('one')
    const id = await standing()
    const vm = await vmOf(id)
    const asked = await ask(snapshotId, 'trial')
    expect(asked).toMatchObject({ id, name: 'trial', kind: 'user', answers: false, readyAt: null })
    expect(statusOf(asked)).toBe('creating')
    expect(await spanned(id)).toBe(1)
    await world.until(async () => statusOf((await store.branch(db, id))!) === 'running')
    expect(await vmOf(id)).toEqual({ ...vm, want: 'running', observed: 'running' })
    const second = await standing()
    expect(second).not.toBe(id)
  })

  it('can be claimed while it is still starting, and is not paused afterwards', async () => {
    const snapshotId = await snapshot('one')
    await sweep()
    const id = (await spareOf(databaseId)) ?? ''
    expect(await phaseOf(id)).toBe('starting')
    expect((await ask(snapshotId, 'early')).id).toBe(id)
    await world.until(async () => statusOf((await store.branch(db, id))!) === 'running')
    for (let round = 0; round < 5; round++) await world.run('branch')
    expect(await phaseOf(id)).toBe('running')
    expect((await vmOf(id))?.want).toBe('running')
  })

  it('is given to only one of two concurrent requests; the other request creates its own branch', async () => {
    const snapshotId = await snapshot('one')
    const id = await standing()
    const both = await Promise.all(['a', 'b'].map(name => ask(snapshotId, name)))
    expect(both.filter(one => one.id === id)).toHaveLength(1)
    expect(new Set(both.map(one => one.id)).size).toBe(2)
  })

  it('is not removed by the sweep if a user claims it after the sweep has found it unneeded', async () => {
    const snapshotId = await snapshot('one')
    const id = await standing()
    // The sweep finds the spare unneeded, but the claim commits before the sweep removes the spare.
    expect((await ask(snapshotId, 'mine')).id).toBe(id)
    expect(await db.tx(tx => spares.drop(tx, id))).toBe(false)
    expect(await sweep(0)).toEqual({ needless: 0, made: 0 })
    expect((await store.branch(db, id))?.want).toBe('live')
  })

  it('can be claimed only if the plan allows its VM and disks', async () => {
    const snapshotId = await snapshot('one')
    const id = await standing()
    const plan = async (name: string) =>
      void (await world.rows(`UPDATE project SET plan = $2 WHERE id = $1`, projectId, name))
    const { backupVolumeId } = await current(databaseId)
    await world.rows(`UPDATE volume SET size_mib = 9000 WHERE id = $1`, backupVolumeId ?? '')
    await plan('free')
    try {
      await expect(ask(snapshotId, 'trial')).rejects.toMatchObject({ code: 'plan_limit_exceeded' })
    } finally {
      await plan('unlimited')
    }
    expect((await store.branch(db, id))?.kind).toBe('spare')
  })
})

describe('a spare branch is removed', { timeout: 60_000 }, () => {
  it('when a newer snapshot exists, for which another spare is created', async () => {
    await snapshot('one')
    const id = await standing()
    const newer = await snapshot('two')
    expect(await sweep()).toEqual({ needless: 1, made: 1 })
    await gone(id)
    expect((await store.branch(db, (await spareOf(databaseId)) ?? ''))?.fromSnapshotId).toBe(newer)
  })

  it('half an hour after its snapshot was taken or the last branch was created from the snapshot', async () => {
    const snapshotId = await snapshot('one')
    const id = await standing()
    await world.rows(
      `UPDATE database_snapshot SET created_at = now() - interval '31 minutes' WHERE id = $1`,
      snapshotId,
    )
    expect(await sweep()).toEqual({ needless: 1, made: 0 })
    await gone(id)
    await ask(snapshotId, 'late')
    expect(await sweep()).toEqual({ needless: 0, made: 1 })
  })

  it('when an operator disables spares', async () => {
    await snapshot('one')
    const id = await standing()
    expect(await sweep(0)).toEqual({ needless: 1, made: 0 })
    await gone(id)
  })

  it('when its host runs low on memory', async () => {
    await snapshot('one')
    const id = await standing()
    const fill = (mib: number) =>
      world.rows(`UPDATE host SET used_memory_mib = used_memory_mib + $2 WHERE id = $1`, host.id, mib)
    await fill(95_000)
    try {
      expect(await sweep()).toEqual({ needless: 1, made: 0 })
      await gone(id)
      expect(await sweep()).toEqual({ needless: 0, made: 0 })
    } finally {
      await fill(-95_000)
    }
  })

  it.each([
    ['settings', `UPDATE database SET revision = revision + 1 WHERE id = $1`],
    ['disk size', `UPDATE database SET disk_mib = disk_mib + 1024 WHERE id = $1`],
  ])("when the database's %s changes, at the next sweep", async (_, change) => {
    const snapshotId = await snapshot('one')
    const id = await standing()
    await world.rows(change, databaseId)
    expect((await sweep()).needless).toBe(1)
    await gone(id)
    expect((await ask(snapshotId, 'trial')).id).not.toBe(id)
  })

  it('when the database is deleted or its size changes', async () => {
    await snapshot('one')
    const id = await standing()
    expect(await db.tx(tx => dropSpares(tx, databaseId))).toEqual([id])
    await gone(id)
  })
})

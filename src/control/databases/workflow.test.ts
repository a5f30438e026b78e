/**
 * Crash matrices of the workflows of database branches and snapshots: crash each workflow before and after each phase.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { runsAll } from '../../../test/support/all-examples.ts'
import { computeWorld } from '../../../test/support/compute.ts'
import { crashMatrix, faults } from '../../../test/support/crash-matrix.ts'
import { poke } from '../../engine/runner.ts'
import { createBranch, createDatabase, startDeletingDatabase } from './create.ts'
import { shapeOf, statusOf } from './rules.ts'
import { takeSnapshot } from './snapshot-workflow.ts'
import * as snapshots from './snapshot-store.ts'
import * as restores from './restore-store.ts'
import * as store from './store.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db, deps, projectId } = world
const host = await world.addHost({ vcpus: 1000, memoryMib: 1_000_000 })
const others = ['vm', 'deployment', 'app', 'volume', 'volumeSnapshot', 'databaseSnapshot'] as const

interface Subject {
  readonly id: string
  readonly databaseId: string
  /** Index of the next action in the test scenario. */
  chapter: number
}

let made = 0
async function database(): Promise<Subject> {
  const shape = shapeOf({ engine: 'postgres' }, [15])
  const databaseId = await db.tx(tx => createDatabase(deps, tx, { ...shape, projectId, name: `db-${++made}` }))
  const id = (await store.current(db, [databaseId])).get(databaseId)?.id ?? ''
  return { id, databaseId, chapter: 0 }
}
const branchOf = async ({ id }: { id: string }) => (await store.branch(db, id))!
const remove = ({ databaseId }: Subject) => db.tx(tx => startDeletingDatabase(tx, databaseId))
const want = async ({ id, databaseId }: Subject, to: 'running' | 'suspended') => {
  const now = (await store.byId(db, databaseId))!
  await db.tx(async tx => {
    await store.change(tx, databaseId, { ...now, want: to, restarts: false })
    await poke(tx, 'database', id)
  })
}
const othersMove = async () => {
  await world.hostsMove()
  await world.run(...others)
}

/** Runs the next user action of the scenario: take a snapshot, restore from it, suspend, resume, delete. */
async function live(s: Subject, phase: string): Promise<void> {
  await othersMove()
  const b = await store.branch(db, s.id)
  if (!b || statusOf(b) === 'deleting') return
  const [snapshot] = (await snapshots.list(db, s.databaseId)).filter(one => one.kind === 'user')
  const is = (chapter: number, status: string) => s.chapter === chapter && statusOf(b) === status
  const next = async (act: () => Promise<unknown>) => {
    s.chapter++
    await act()
  }
  if (is(0, 'running')) await next(() => db.tx(tx => takeSnapshot(tx, b, { name: 'one', kind: 'user' })))
  else if (is(1, 'running') && snapshot?.state === 'ready')
    await next(() => db.tx(tx => restores.startRestore(tx, s.id, { snapshotId: snapshot.id })))
  else if (is(2, 'running') && b.restored === 1) await next(() => want(s, 'suspended'))
  else if (s.chapter === 3 && phase === 'resting') await next(() => want(s, 'running'))
  else if (is(4, 'running')) await next(() => remove(s))
}

async function nothingLeft({ id, databaseId }: Subject): Promise<void> {
  expect(await store.byId(db, databaseId)).toBeUndefined()
  await world.until(async () => (await world.rows(`SELECT id FROM volume WHERE owner_id = $1`, id)).length === 0)
  expect(await world.rows(`SELECT id FROM app WHERE owner_id = $1`, id)).toEqual([])
  expect(await world.rows(`SELECT id FROM database_snapshot WHERE branch_id = $1`, id)).toEqual([])
}

const workflow = world.workflows.branch
const shared = { db, workflow, remove, check: nothingLeft }
const whole = crashMatrix<Subject>({
  ...shared,
  makeSubject: database,
  advance: live,
  unreachable: {
    preparing: 'starts empty',
    failing: 'its VM works',
    replaying: 'covered by another scenario',
    undoing: 'covered by another scenario',
    standing: 'covered by another scenario',
  },
})

/** Creates a branch of a running database from its latest backup. */
async function branchOfBackups(): Promise<Subject> {
  const parent = await database()
  await world.until(async () => statusOf(await branchOf(parent)) === 'running')
  const made = await db.tx(tx =>
    createBranch(deps, tx, { ...parent, projectId, name: 'earlier', parentId: parent.id, fromMoment: 'latest' }),
  )
  return { id: made.id, databaseId: parent.databaseId, chapter: 0 }
}
const elsewhere = 'covered by another scenario'
const played = crashMatrix<Subject>({
  ...shared,
  makeSubject: branchOfBackups,
  advance: async s => {
    await othersMove()
    const b = await store.branch(db, s.id)
    if (b && statusOf(b) === 'running') await remove(s)
  },
  unreachable: Object.fromEntries(
    Object.keys(workflow.phases)
      .filter(phase => phase !== 'preparing')
      .map(phase => [phase, elsewhere]),
  ),
  check: async s => {
    await world.until(async () => (await store.byId(db, s.databaseId)) === undefined)
    await nothingLeft(s)
  },
})

/** Restores a branch to an instant. The first attempt fails in the branch's VM and is undone. */
const replayed = crashMatrix<Subject>({
  ...shared,
  makeSubject: database,
  advance: async s => {
    const b = await store.branch(db, s.id)
    if (!b || statusOf(b) === 'deleting') return othersMove()
    const to = { moment: '2026-01-01 00:00:00+00' }
    if (s.chapter === 0 && statusOf(b) === 'running') {
      s.chapter++
      await db.tx(tx => restores.startRestore(tx, s.id, to))
      await db.tx(tx => poke(tx, 'database', s.id))
    } else if (s.chapter === 1 && b.phase === 'replaying') host.behaviour.set('oci:postgres:15', 'crash')
    else if (s.chapter === 1 && b.phase === 'undoing') {
      s.chapter++
      host.behaviour.delete('oci:postgres:15')
    } else if (s.chapter === 2 && statusOf(b) === 'running') {
      s.chapter++
      expect(b.restored).toBe(1)
      await db.tx(tx => restores.startRestore(tx, s.id, to))
      await db.tx(tx => poke(tx, 'database', s.id))
    } else if (s.chapter === 3 && statusOf(b) === 'running') {
      s.chapter++
      expect(b.restored).toBe(2)
      const kept = (await snapshots.list(db, s.databaseId)).map(({ kind, state }) => `${kind} ${state}`)
      expect(kept).toEqual(['restore ready', 'restore ready'])
      await remove(s)
    }
    await othersMove()
  },
  check: async s => {
    host.behaviour.delete('oci:postgres:15')
    await nothingLeft(s)
  },
  unreachable: Object.fromEntries(
    Object.keys(workflow.phases)
      .filter(phase => phase !== 'replaying' && phase !== 'undoing')
      .map(phase => [phase, elsewhere]),
  ),
})

/** Creates a spare branch, which a user claims during the scenario. */
async function spare(): Promise<Subject> {
  const parent = await database()
  await world.until(async () => statusOf(await branchOf(parent)) === 'running')
  const b = await branchOf(parent)
  const { id: fromSnapshotId } = await db.tx(tx => takeSnapshot(tx, b, { name: 'one', kind: 'user' }))
  await world.until(async () => (await snapshots.byId(db, fromSnapshotId))?.state === 'ready')
  const { databaseId } = parent
  const of = { databaseId, projectId, name: 'spare', kind: 'spare', fromSnapshotId } as const
  const { id } = await db.tx(tx => createBranch(deps, tx, of))
  return { id, databaseId, chapter: 0 }
}
const stood = crashMatrix<Subject>({
  ...shared,
  makeSubject: spare,
  advance: async (s, phase) => {
    await othersMove()
    const b = await store.branch(db, s.id)
    if (!b || statusOf(b) === 'deleting') return
    if (s.chapter === 0 && phase === 'standing' && b.fromSnapshotId) {
      s.chapter++
      const { databaseId, fromSnapshotId } = b
      const asked = await db.tx(tx => createBranch(deps, tx, { databaseId, projectId, name: 'trial', fromSnapshotId }))
      expect(asked.id).toBe(s.id)
    } else if (s.chapter === 1 && statusOf(b) === 'running') await remove(s)
  },
  check: async s => {
    await world.until(async () => (await store.byId(db, s.databaseId)) === undefined)
    await nothingLeft(s)
  },
  unreachable: Object.fromEntries(
    Object.keys(workflow.phases)
      .filter(phase => phase !== 'standing')
      .map(phase => [phase, elsewhere]),
  ),
})

const broken = crashMatrix<Subject>({
  ...shared,
  makeSubject: async () => {
    host.behaviour.set('oci:postgres:15', 'crash')
    return database()
  },
  advance: async (s, phase) => {
    if (phase === 'failing') {
      host.behaviour.delete('oci:postgres:15')
      if (++s.chapter > 2) await remove(s)
    }
    await othersMove()
  },
  check: async s => {
    host.behaviour.delete('oci:postgres:15')
    await nothingLeft(s)
  },
  unreachable: Object.fromEntries(
    Object.keys(workflow.phases)
      .filter(phase => phase !== 'failing')
      .map(phase => [phase, elsewhere]),
  ),
})

describe('crash matrix of the workflow of a branch', () => {
  const all = [...whole, ...played, ...replayed, ...stood, ...broken]
  // Only partly in `npm test`: one fault in each phase, and another in the next phase. The crash matrices of volumes
  // have all faults.
  const chosen = all.filter((_, n) => runsAll || (n + Math.floor(n / faults.length)) % faults.length === 0)
  it('tests every phase with every fault', () =>
    expect(new Set(all.map(({ name }) => name)).size).toBe(Object.keys(workflow.phases).length * faults.length))
  it.each(chosen)('$name', ({ run }) => run(), 120_000)
})

describe('crash matrix of the workflow of a database snapshot', async () => {
  const of = await database()
  await world.until(async () => statusOf(await branchOf(of)) === 'running')
  const subject = async () => {
    const b = await branchOf(of)
    const { id } = await db.tx(tx => takeSnapshot(tx, b, { name: `s${++made}`, kind: 'user' }))
    return { id, rounds: 0 }
  }
  const drop = async ({ id }: { id: string }) => {
    await db.tx(async tx => {
      await snapshots.markForDeletion(tx, id)
      await poke(tx, 'database-snapshot', id)
    })
  }
  const cases = crashMatrix<{ id: string; rounds: number }>({
    db,
    workflow: world.workflows.databaseSnapshot,
    makeSubject: subject,
    remove: drop,
    advance: async (s, phase) => {
      await world.hostsMove()
      await world.run('volume', 'volumeSnapshot')
      if (phase === 'keeping' && ++s.rounds > 2) await drop(s)
    },
    check: async ({ id }) => {
      expect(await snapshots.byId(db, id)).toBeUndefined()
      await world.until(
        async () => (await world.rows(`SELECT id FROM volume_snapshot WHERE name = $1`, id)).length === 0,
      )
    },
  })
  it('tests every phase with every fault', () =>
    expect(cases.length).toBe(Object.keys(world.workflows.databaseSnapshot.phases).length * faults.length))
  it.each(cases)('$name', ({ run }) => run(), 60_000)
})

/**
 * Tests the crash matrix, a test that lets every phase of a workflow fail in every way. The small workflow here does
 * what real ones do: reserve a row, act on an external system, and be deleted at any time.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { crashMatrix, faults } from '../../test/support/crash-matrix.ts'
import { type TestDatabase, testDatabase } from '../../test/support/database.ts'
import { statement } from '../db/db.ts'
import { newId } from '../lib/ids.ts'
import { type AnyWorkflow, done, go, workflow, wait } from './workflow.ts'
import { createWorkflow, poke } from './runner.ts'

interface Parcel {
  readonly id: string
  readonly wanted: string
}

const sql = {
  schema: statement(
    'parcel.schema',
    'CREATE TABLE parcel (id uuid PRIMARY KEY, wanted text NOT NULL, reserved int NOT NULL DEFAULT 0 CHECK (reserved IN (0, 1)))',
  ),
  insert: statement('parcel.insert', "INSERT INTO parcel (id, wanted) VALUES ($1, 'delivered')"),
  byId: statement<Parcel>('parcel.by_id', 'SELECT id, wanted FROM parcel WHERE id = $1'),
  reserve: statement('parcel.reserve', 'UPDATE parcel SET reserved = reserved + 1 WHERE id = $1'),
  release: statement('parcel.release', 'UPDATE parcel SET reserved = 0 WHERE id = $1'),
  remove: statement('parcel.remove', "UPDATE parcel SET wanted = 'gone' WHERE id = $1"),
  delete: statement('parcel.delete', 'DELETE FROM parcel WHERE id = $1'),
}

/** The external system: placing the same parcel twice has the effect of placing it once. */
function makeWorld() {
  const places = new Set<string>()
  return { places, put: (id: string) => void places.add(id), take: (id: string) => void places.delete(id) }
}

function parcelWorkflow(database: () => TestDatabase, world: ReturnType<typeof makeWorld>): AnyWorkflow {
  return workflow<Parcel>()({
    kind: 'parcel',
    edges: {
      packing: ['sending', 'removing'],
      sending: ['delivered', 'removing'],
      delivered: ['removing'],
      removing: [],
    },
    load: id => database().db.maybe(sql.byId, [id]),
    preempt: parcel => (parcel.wanted === 'gone' ? 'removing' : undefined),
    phases: {
      packing: async ({ subject }) => go('sending', async tx => void (await tx.run(sql.reserve, [subject.id]))),
      async sending({ subject }) {
        const there = world.places.has(subject.id)
        world.put(subject.id)
        return there ? go('delivered') : wait(1)
      },
      delivered: async () => wait(60_000),
      async removing({ subject }) {
        world.take(subject.id)
        return done(async tx => void (await tx.run(sql.delete, [subject.id])))
      },
    },
  })
}

let database: TestDatabase
beforeAll(async () => {
  database = await testDatabase()
  await database.db.run(sql.schema)
})
afterAll(() => database?.drop())

const world = makeWorld()
const parcels = parcelWorkflow(() => database, world)

async function makeSubject() {
  const id = newId()
  await database.db.tx(async tx => {
    await tx.run(sql.insert, [id])
    await createWorkflow(tx, 'parcel', id, 'packing')
  })
  return { id }
}

async function remove({ id }: { id: string }) {
  await database.db.run(sql.remove, [id])
  await poke(database.db, 'parcel', id)
}

const roundsAtRest = new Map<string, number>()

const options = (subjectWorkflow: AnyWorkflow) => ({
  get db() {
    return database.db
  },
  workflow: subjectWorkflow,
  makeSubject,
  remove,
  // Deletes the subject only after three rounds in its steady phase, so that the steady phase is tested, too.
  advance: async (subject: { id: string }, phase: string) => {
    if (phase !== 'delivered') return
    const rounds = (roundsAtRest.get(subject.id) ?? 0) + 1
    roundsAtRest.set(subject.id, rounds)
    if (rounds === 3) await remove(subject)
  },
  check: async ({ id }: { id: string }) => {
    expect(world.places.has(id)).toBe(false)
    expect(await database.db.maybe(sql.byId, [id])).toBeUndefined()
  },
})

describe('crash matrix', () => {
  const cases = crashMatrix(options(parcels))
  test('tests every phase with every fault', () => {
    expect(cases.length).toBe(4 * faults.length)
  })
  test.each(cases)('$name', ({ run }) => run())

  const brokenAt = (phase: string, broken: AnyWorkflow['phases'][string]): AnyWorkflow => ({
    ...parcels,
    phases: { ...parcels.phases, [phase]: broken },
  })

  test('a side effect that is not idempotent fails the matrix', async () => {
    const broken = brokenAt('packing', async ({ subject }) => {
      await database.db.run(sql.reserve, [subject.id])
      return go('sending')
    })
    const found = crashMatrix(options(broken)).find(({ name }) => name === 'packing: after-handler')
    await expect(found?.run()).rejects.toThrow(/never settled: it is in "packing".*parcel_reserved_check/)
  })

  test('a teardown that leaks external state fails the matrix', async () => {
    const broken = brokenAt('removing', async ({ subject }) =>
      done(async tx => void (await tx.run(sql.delete, [subject.id]))),
    )
    const leaking = crashMatrix(options(broken)).find(({ name }) => name === 'delivered: before-handler')
    await expect(leaking?.run()).rejects.toThrow(/expected true to be false/)
  })

  test('a phase that is never reached fails the matrix', async () => {
    const skipping = brokenAt('packing', async () => go('removing'))
    const missed = crashMatrix(options(skipping)).find(({ name }) => name === 'sending: before-handler')
    await expect(missed?.run()).rejects.toThrow(/phase "sending" of parcel was never reached/)
  })
})

/**
 * Removes one guard from one SQL statement at a time, and checks that the scenario that the guard protects against then
 * goes wrong.
 */
import { pino } from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { describeEachPostgres, type TestDatabase, testDatabase } from '../../test/support/database.ts'
import { connectDb } from '../db/connect.ts'
import { type Db, statement } from '../db/db.ts'
import { newId } from '../lib/ids.ts'
import { type AnyWorkflow, done, go, workflow, wait } from './workflow.ts'
import { createWorkflow, createRunner, poke, readWorkflow, type Runner } from './runner.ts'
import { createSettle } from './settle.ts'
import { type EngineStatements, engineStatements } from './statements.ts'

const log = pino({ level: 'silent' })

/**
 * Returns the engine's statements, one of them with a piece of its text replaced. Throws if the statement does not
 * contain the piece.
 */
function mutant(name: keyof EngineStatements, piece: string, replacement: string): EngineStatements {
  const { text } = engineStatements[name]
  if (!text.includes(piece)) throw new Error(`statement ${name} has no "${piece}"`)
  return {
    ...engineStatements,
    [name]: { name: `${engineStatements[name].name}.${newId()}`, text: text.replace(piece, replacement) },
  }
}

/** Delivers pokes, as another runner would do before each claim. */
const deliver = (db: Db) => createRunner({ db, workflows: [], log }).tickOnce()

const expireLeases = statement(
  'mutant.expire',
  "UPDATE machine SET lease_until = now() - interval '1 second' WHERE lease IS NOT NULL",
)

const loop = (handlers: { a: () => Promise<ReturnType<typeof wait>>; id: string }): AnyWorkflow =>
  workflow<{ id: string }>()({
    kind: 'm',
    edges: { a: [] },
    load: async () => ({ id: handlers.id }),
    phases: { a: handlers.a },
  })

describeEachPostgres('mutants of the engine', which => {
  let database: TestDatabase
  let db: Db
  let id: string
  beforeEach(async () => {
    database = await testDatabase(which)
    db = database.db
    id = newId()
    await db.tx(tx => createWorkflow(tx, 'm', id, 'a'))
  })
  afterEach(() => database.drop())

  /**
   * Lets a slow step lose its lease to another runner, which does the work before the slow step ends. Returns true if
   * the slow step's write was committed.
   */
  async function staleWriteIsKept(statements: EngineStatements): Promise<boolean> {
    let written = false
    const other = workflow<{ id: string }>()({
      kind: 'm',
      edges: { a: ['b'], b: [] },
      load: async () => ({ id }),
      phases: { a: async () => go('b'), b: async () => done() },
    })
    const slow: AnyWorkflow = {
      ...other,
      phases: {
        ...other.phases,
        async a() {
          await db.run(expireLeases)
          await createRunner({ db, workflows: [other], log }).tickOnce()
          return go('b', async () => {
            written = true
          })
        },
      },
    }
    await createRunner({ db, workflows: [slow], log, statements }).tickOnce()
    return written
  }

  test('without the lease check in `go`, a step that lost its lease still commits', async () => {
    expect(await staleWriteIsKept(engineStatements)).toBe(false)
    await db.run(statement('mutant.reset', "UPDATE machine SET phase = 'a'"))
    // The replacement still contains $3, because PostgreSQL infers the parameter's type from its use.
    expect(await staleWriteIsKept(mutant('go', 'AND lease = $3', 'AND $3::uuid IS NOT NULL'))).toBe(true)
  })

  async function pokeIsLost(statements: EngineStatements): Promise<boolean> {
    await db.run(statement('mutant.due', 'UPDATE machine SET wake_at = now()'))
    const a = async () => {
      await poke(db, 'm', id)
      await deliver(db)
      return wait(60_000)
    }
    await createRunner({ db, workflows: [loop({ a, id })], log, statements }).tickOnce()
    return ((await readWorkflow(db, 'm', id))?.wake_at.getTime() ?? 0) > Date.now()
  }

  test('without the comparison of poke counts in `wait`, a poke during a step is lost', async () => {
    expect(await pokeIsLost(engineStatements)).toBe(false)
    expect(await pokeIsLost(mutant('wait', 'WHEN pokes = $5', 'WHEN $5::bigint IS NOT NULL'))).toBe(true)
  })

  test('without the comparison of poke counts in `fail`, a poke during a failing step is lost', async () => {
    const late = async (statements: EngineStatements) => {
      await db.run(statement('mutant.due', 'UPDATE machine SET wake_at = now()'))
      const a = async () => {
        await poke(db, 'm', id)
        await deliver(db)
        throw new Error('no')
      }
      await createRunner({ db, workflows: [loop({ a, id })], log, statements }).tickOnce()
      return ((await readWorkflow(db, 'm', id))?.wake_at.getTime() ?? 0) > Date.now()
    }
    expect(await late(engineStatements)).toBe(false)
    expect(await late(mutant('fail', 'WHEN pokes = $5', 'WHEN $5::bigint IS NOT NULL'))).toBe(true)
  })

  /** Commits two steps in one batch, after the second one has lost its lease. Returns the state of both workflows. */
  async function settledTogether(statements: EngineStatements, end: 'go' | 'wait'): Promise<string[]> {
    const other = newId()
    await db.tx(tx => createWorkflow(tx, 'm', other, 'a'))
    const [held, robbed] = await Promise.all(
      [id, other].map(one =>
        db.one(
          statement<{ kind: string; id: string; lease: string; pokes: number }>(
            'mutant.hold',
            `UPDATE machine SET lease = gen_random_uuid(), lease_until = now() + interval '1 hour', runner = gen_random_uuid()
             WHERE id = $1 RETURNING kind, id, lease, pokes`,
          ),
          [one],
        ),
      ),
    )
    if (!held || !robbed) throw new Error('BUG: two were held')
    const claims = [held, { ...robbed, lease: newId() }]
    // Poke the first workflow, as happens when a poke arrives after its step was claimed.
    await db.run(statement('mutant.poked', 'UPDATE machine SET pokes = pokes + 1 WHERE id = $1'), [id])
    const settle = createSettle(db, statements)
    const answers = await Promise.all(
      claims.map(claim =>
        end === 'go' ? settle.go({ claim, to: 'b', deadlineMs: 1000 }) : settle.wait({ claim, ms: 60_000 }),
      ),
    )
    const rows = await Promise.all([id, other].map(one => readWorkflow(db, 'm', one)))
    return rows.map((row, at) => {
      const soon = (row?.wake_at.getTime() ?? 0) <= Date.now() + 1000
      return `${answers[at]} ${row?.phase} ${row?.leased ? 'leased' : 'free'} ${soon ? 'soon' : 'later'}`
    })
  }

  test('without the lease check in `goAll`, a step of a batch that lost its lease still commits', async () => {
    expect(await settledTogether(engineStatements, 'go')).toEqual(['true b free soon', 'false a leased soon'])
    const open = mutant('goAll', 'AND m.lease = s.lease', '')
    expect(await settledTogether(open, 'go')).toEqual(['true b free soon', 'true b free soon'])
  })

  test('without the lease check or the comparison of poke counts, `waitAll` commits a step that lost its lease or loses a poke', async () => {
    expect(await settledTogether(engineStatements, 'wait')).toEqual(['true a free soon', 'false a leased soon'])
    const open = mutant('waitAll', 'AND m.lease = s.lease', '')
    expect(await settledTogether(open, 'wait')).toEqual(['true a free soon', 'true a free later'])
    const deaf = mutant('waitAll', 'WHEN m.pokes = s.pokes', 'WHEN s.pokes IS NOT NULL')
    expect(await settledTogether(deaf, 'wait')).toEqual(['true a free later', 'false a leased soon'])
  })

  /**
   * Runs the operation while an open transaction locks the workflow's row. Returns true if the operation waits for the
   * lock instead of skipping the row.
   */
  async function waits(
    statements: EngineStatements,
    act: (runner: Runner, db: Db) => Promise<unknown>,
  ): Promise<boolean> {
    const impatient = await connectDb({ url: `${database.url}&options=-c%20lock_timeout%3D200`, log })
    try {
      return await db.tx(async tx => {
        await tx.rows(statement('mutant.lock', 'SELECT id FROM machine FOR UPDATE'))
        const runner = createRunner({
          db: impatient,
          workflows: [loop({ a: async () => wait(1), id })],
          log,
          statements,
        })
        return act(runner, impatient).then(
          () => false,
          () => true,
        )
      })
    } finally {
      await impatient.close()
    }
  }
  const claimWaits = (statements: EngineStatements) => waits(statements, runner => runner.tickOnce())

  test('without SKIP LOCKED, a claim waits for a locked workflow', async () => {
    expect(await claimWaits(engineStatements)).toBe(false)
    expect(await claimWaits(mutant('claim', 'SKIP LOCKED', ''))).toBe(true)
  })

  test('without SKIP LOCKED, the delivery of pokes waits for a locked workflow; with it, the poke stays pending', async () => {
    await poke(db, 'm', id)
    const deliveryWaits = (statements: EngineStatements) => waits(statements, (_, on) => on.rows(statements.deliver))
    expect(await deliveryWaits(engineStatements)).toBe(false)
    const pending = statement<{ id: string }>('mutant.pending', 'SELECT id FROM machine_poke')
    expect(await db.rows(pending)).toEqual([{ id }])
    expect(await deliveryWaits(mutant('deliver', 'FOR NO KEY UPDATE SKIP LOCKED', 'FOR NO KEY UPDATE'))).toBe(true)
    await deliver(db)
    expect(await db.rows(pending)).toEqual([])
  })

  test('without SKIP LOCKED, the takeover from dead runners waits for a locked workflow; with it, the next upkeep takes it over', async () => {
    await db.rows(engineStatements.claim, [['m'], 1, newId(), 60_000, newId()])
    const upkeepWaits = (statements: EngineStatements) => waits(statements, runner => runner.upkeepOnce())
    expect(await upkeepWaits(mutant('releaseDead', 'SKIP LOCKED', ''))).toBe(true)
    expect(await upkeepWaits(engineStatements)).toBe(false)
    expect((await readWorkflow(db, 'm', id))?.leased).toBe(true)
    await createRunner({ db, workflows: [], log }).upkeepOnce()
    expect((await readWorkflow(db, 'm', id))?.leased).toBe(false)
  })

  /** Returns true if a second claim takes a workflow whose lease has not expired. */
  async function claimedTwice(statements: EngineStatements): Promise<boolean> {
    let inner = 0
    const a = async () => {
      inner += await createRunner({
        db,
        workflows: [loop({ a: async () => wait(60_000), id })],
        log,
        statements,
      }).tickOnce()
      return wait(0)
    }
    await db.run(statement('mutant.due', 'UPDATE machine SET wake_at = now()'))
    await createRunner({ db, workflows: [loop({ a, id })], log, statements }).tickOnce()
    return inner > 0
  }

  test('without the check for an expired lease, two runners claim the same workflow', async () => {
    expect(await claimedTwice(engineStatements)).toBe(false)
    expect(await claimedTwice(mutant('claim', 'AND (lease_until IS NULL OR lease_until <= now())', ''))).toBe(true)
  })

  /** Runs upkeep while a live runner holds the workflow. Returns true if upkeep releases the workflow. */
  async function livingIsRobbed(statements: EngineStatements): Promise<boolean> {
    const entered = Promise.withResolvers<void>()
    const a = () => (entered.resolve(), new Promise<never>(() => undefined))
    const holder = createRunner({ db, workflows: [loop({ a, id })], log, workers: 1 })
    await db.run(statement('mutant.due', 'UPDATE machine SET wake_at = now()'))
    await holder.start()
    await entered.promise
    await createRunner({ db, workflows: [], log, statements }).upkeepOnce()
    const robbed = (await readWorkflow(db, 'm', id))?.leased === false
    await holder.stop({ drainMs: 0 })
    return robbed
  }

  test('without the check that a runner is dead, upkeep takes workflows from live runners', async () => {
    expect(await livingIsRobbed(engineStatements)).toBe(false)
    expect(await livingIsRobbed(mutant('releaseDead', 'AND granted', 'AND NOT granted'))).toBe(true)
  })
})

/** Deadlines and leases of steps, and what happens when a runner starts, stops or dies. */
import { expect, test } from 'vitest'
import { describeEachPostgres } from '../../test/support/database.ts'
import { until } from '../../test/support/wait.ts'
import { connectDb } from '../db/connect.ts'
import { statement } from '../db/db.ts'
import { newId } from '../lib/ids.ts'
import { done, go, type Next, wait } from './workflow.ts'
import { advanceWorkflow, createWorkflow, createRunner, poke, pokeMany } from './runner.ts'
import { engineStatements, runnerLock, someRunnerLacks } from './statements.ts'
import { expireLeases, log, sample, sampleWorld } from '../../test/support/engine.ts'

const alerts = statement<{ phase: string; open: boolean }>(
  'test.alerts',
  'SELECT phase, closed_at IS NULL AS open FROM alert ORDER BY opened_at',
)
const expireDeadlines = statement(
  'test.overdue',
  "UPDATE machine SET deadline = now() - interval '1 second' WHERE deadline IS NOT NULL",
)

const lockOne = statement('test.lockOne', 'SELECT id FROM machine WHERE id = $1 FOR NO KEY UPDATE')

describeEachPostgres('runner lifecycle', which => {
  const world = sampleWorld(which)

  test('an overdue phase opens one alert, and leaving the phase closes it', async () => {
    const events: string[] = []
    const id = await world.create('one', { deadlineMs: 60_000 })
    const hooks = {
      alert: ({ state, phase }: { state: string; phase: string }) => void events.push(`${phase} ${state}`),
    }
    const runner = world.runnerOf(sample({ one: async () => go('two', undefined, 60_000), two: async () => wait(0) }), {
      hooks,
    })
    await runner.upkeepOnce()
    expect(await world.db.rows(alerts)).toEqual([])
    await world.db.run(expireDeadlines)
    await runner.upkeepOnce()
    await runner.upkeepOnce()
    expect(await world.db.rows(alerts)).toEqual([{ phase: 'one', open: true }])
    await runner.tickOnce()
    expect(await world.db.rows(alerts)).toEqual([{ phase: 'one', open: false }])
    await world.db.run(expireDeadlines)
    await runner.upkeepOnce()
    await runner.tickOnce()
    expect((await world.db.rows(alerts)).map(({ open }) => open)).toEqual([false, true])
    await world.db.run(statement('test.drop', 'DELETE FROM machine WHERE id = $1'), [id])
    await runner.upkeepOnce()
    expect((await world.db.rows(alerts)).map(({ open }) => open)).toEqual([false, false])
    expect(events).toEqual(['one opened', 'two opened', 'two closed'])
  })

  test('a step that outlives its lease is aborted, and abandoned if it ignores the signal', async () => {
    const [polite, deaf] = [await world.create('one'), await world.create('two')]
    const outcomes: string[] = []
    const late = Promise.withResolvers<Next<'one'>>()
    const runner = world.runnerOf(
      sample({
        one: ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
        two: () => late.promise,
      }),
      { leaseMs: 200, hooks: { step: ({ phase, outcome }) => void outcomes.push(`${phase} ${outcome}`) } },
    )
    expect(await runner.tickOnce()).toBe(2)
    expect(outcomes.sort()).toEqual(['one failed', 'two abandoned'])
    expect((await world.read(polite))?.last_error).toMatch(/in phase one took longer than 160 ms/)
    expect((await world.read(deaf))?.last_error).toMatch(/in phase two did not end 180 ms after it began/)
    late.resolve(go('one'))
    await until(async () => (await world.read(deaf))?.attempt === 1, { what: 'the failed attempt' })
    expect((await world.read(deaf))?.phase).toBe('two')
  })

  test('a runner that lost its lease writes nothing', async () => {
    const id = await world.create()
    const outcomes: string[] = []
    const write = async () => {
      throw new Error('BUG: written behind a lost fence')
    }
    const slow = world.runnerOf(
      sample({
        one: async () => {
          await world.db.run(expireLeases)
          await world.runnerOf(sample({ one: async () => go('two') })).tickOnce()
          return go('ending', write)
        },
      }),
      { hooks: { step: ({ outcome }) => void outcomes.push(outcome) } },
    )
    await slow.tickOnce()
    expect(outcomes).toEqual(['lost'])
    expect((await world.read(id))?.phase).toBe('two')
  })

  test('a runner wakes up on notifications, and runs workflows that were due before it started', async () => {
    const observed: string[] = []
    const before = await world.create()
    const runner = world.runnerOf(
      sample({ one: async ({ subject }) => (observed.push(subject.id), wait(3_600_000)) }),
      {
        pollMs: 3_600_000,
      },
    )
    await runner.start()
    await until(() => observed.includes(before), { what: 'the due workflow' })
    const created = await world.create()
    await until(() => observed.includes(created), { what: 'the new workflow' })
    await poke(world.db, 'sample', before)
    await until(() => observed.filter(id => id === before).length === 2, { what: 'the poked workflow' })
    expect(observed.filter(id => id === created).length).toBe(1)
  })

  test('a workflow that is due later is claimed on time without a notification', async () => {
    const observed: string[] = []
    const runner = world.runnerOf(
      sample({ one: async ({ subject }) => (observed.push(subject.id), wait(3_600_000)) }),
      {
        pollMs: 50,
      },
    )
    await runner.start()
    const later = await world.create('one', { afterMs: 150 })
    await until(() => observed.includes(later), { what: 'the workflow with a due time' })
  })

  test.each(['deliver', 'untilDue'] as const)('claimed workflows run although `%s` failed', async failing => {
    const observed: string[] = []
    const id = await world.create()
    const other = statement<never>('test.wrong', 'SELECT 1 / 0 WHERE $1::text[] IS NULL OR true')
    const broken = statement<never>('test.broken', 'SELECT 1 / 0')
    const statements = { ...engineStatements, [failing]: failing === 'deliver' ? broken : other }
    const runner = world.runnerOf(
      sample({ one: async ({ subject }) => (observed.push(subject.id), wait(3_600_000)) }),
      {
        statements,
      },
    )
    await runner.start()
    await until(() => observed.includes(id), { what: 'the due workflow' })
    await until(async () => (await world.read(id))?.leased === false, { what: 'its step has been committed' })
    expect(observed).toEqual([id])
  })

  test('`advanceWorkflow` moves a free workflow, but not one that is held, being committed or in another phase', async () => {
    const id = await world.create()
    const advance = (from: string, afterMs = 0) =>
      world.db.tx(tx => advanceWorkflow(tx, 'sample', id, { from, to: 'two', afterMs, deadlineMs: 60_000 }))
    const inStep = Promise.withResolvers<void>()
    const gate = Promise.withResolvers<void>()
    const runner = world.runnerOf(sample({ one: async () => (inStep.resolve(), await gate.promise, wait(3_600_000)) }))
    const stepping = runner.tickOnce()
    await inStep.promise
    expect(await advance('one')).toBe(false)
    gate.resolve()
    await stepping
    expect(await advance('two')).toBe(false)
    const held = Promise.withResolvers<void>()
    const free = Promise.withResolvers<void>()
    const committing = world.db.tx(async tx => {
      await tx.rows(lockOne, [id])
      held.resolve()
      await free.promise
    })
    await held.promise
    expect(await advance('one')).toBe(false)
    free.resolve()
    await committing
    const before = await world.read(id)
    expect(await advance('one', 60_000)).toBe(true)
    const after = await world.read(id)
    expect(after).toMatchObject({ phase: 'two', attempt: 0, leased: false })
    expect(after?.entered_at.getTime()).toBeGreaterThan(before?.entered_at.getTime() ?? 0)
    expect(after?.deadline?.getTime()).toBeGreaterThan(Date.now() + 50_000)
    expect(after?.wake_at.getTime()).toBeGreaterThan(Date.now() + 50_000)
  })

  test('creating a workflow in a transaction that is rolled back has no effect', async () => {
    const id = newId()
    const rolledBack = world.db.tx(async tx => {
      await createWorkflow(tx, 'sample', id, 'one')
      throw new Error('roll back')
    })
    await expect(rolledBack).rejects.toThrow('roll back')
    expect(await world.read(id)).toBeUndefined()
  })

  test('`stop` lets running steps finish and starts no new ones', async () => {
    const ids = [await world.create(), await world.create()]
    const entered = Promise.withResolvers<void>()
    const gate = Promise.withResolvers<void>()
    const runner = world.runnerOf(
      sample({ one: async () => (entered.resolve(), await gate.promise, go('two')), two: async () => wait(0) }),
      { workers: 1 },
    )
    await runner.start()
    await entered.promise
    const stopped = runner.stop()
    gate.resolve()
    await stopped
    const rows = await Promise.all(ids.map(world.read))
    expect(rows.map(row => row?.phase).sort()).toEqual(['one', 'two'])
    expect(rows.every(row => row?.leased === false)).toBe(true)
  })

  test('`stop` without a drain time releases the workflow without counting a failed attempt', async () => {
    const id = await world.create()
    const entered = Promise.withResolvers<void>()
    const runner = world.runnerOf(sample({ one: () => (entered.resolve(), new Promise(() => undefined)) }))
    await runner.start()
    await entered.promise
    await runner.stop({ drainMs: 0 })
    expect(await world.read(id)).toMatchObject({ leased: false, attempt: 0, last_error: null })
  })

  test('workflows of a dead runner are taken over at once, and those of a live one are not', async () => {
    const doomed = await connectDb({ url: world.database.url, log })
    const id = await world.create()
    const entered = Promise.withResolvers<void>()
    const hang = sample({ one: () => (entered.resolve(), new Promise(() => undefined)) })
    const dead = createRunner({ db: doomed, workflows: [hang], log, workers: 1 })
    await dead.start()
    await entered.promise
    const survivor = world.runnerOf(sample({ one: async () => go('two'), two: async () => wait(60_000) }))
    await survivor.start()
    await survivor.upkeepOnce()
    expect((await world.read(id))?.leased).toBe(true)
    // Terminates the oldest runner's lock session, as a SIGKILL of its process would do.
    const killOthers = statement(
      'test.kill',
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'mote-lock runner%' AND datname = current_database() AND pid <> pg_backend_pid() AND backend_start <= (SELECT min(backend_start) FROM pg_stat_activity WHERE application_name LIKE 'mote-lock runner%' AND datname = current_database())",
    )
    await world.db.rows(killOthers)
    await until(async () => (await world.read(id))?.phase === 'two', { what: 'the take-over' })
    await dead.stop({ drainMs: 0 })
    await doomed.close()
  })

  test('a runner announces its workflow kinds while it lives, and a missing announcement reveals a runner of an older version', async () => {
    const lacks = async (kind: string) => {
      const [row] = await world.db.rows(
        statement<{ is: boolean }>(`test.lacks.${kind}`, `SELECT ${someRunnerLacks(kind)} AS is`),
      )
      return row?.is
    }
    const announced = statement<{ id: string }>('test.announced', 'SELECT id FROM runner')
    const idle = sample({ one: async () => wait(60_000) })
    const { kind } = idle
    const [runner, other] = [world.runnerOf(idle), world.runnerOf(idle)]
    await runner.start()
    expect(await lacks(kind)).toBe(false)
    expect(await lacks('unheard-of')).toBe(true)
    await world.db.withLockedSession(runnerLock(newId()), async () => expect(await lacks(kind)).toBe(true))
    await until(async () => !(await lacks(kind)), { what: 'the older runner has ended' })
    await other.upkeepOnce()
    expect(await world.db.rows(announced)).toHaveLength(1)
    await runner.stop()
    await until(
      async () => {
        await other.upkeepOnce()
        return (await world.db.rows(announced)).length === 0
      },
      { what: 'its announcement is deleted' },
    )
  })

  test('eight runners on separate connections run each step exactly once', async () => {
    const subjects = 60
    const rounds = 5
    const runs = new Map<string, number>()
    const dbs = await Promise.all(
      Array.from({ length: 8 }, () =>
        connectDb({ url: world.database.url, log, autocommitConnections: 1, txConnections: 2 }),
      ),
    )
    const inside = new Set<string>()
    const count = statement(
      'test.count',
      "INSERT INTO alert (kind, machine_id, phase, closed_at) VALUES ('count', $1, 'x', now())",
    )
    const counted = statement<{ machine_id: string; n: number }>(
      'test.counted',
      "SELECT machine_id, count(*) AS n FROM alert WHERE kind = 'count' GROUP BY machine_id",
    )
    const m = sample({
      one: async ({ subject: { id } }) => {
        if (inside.has(id)) throw new Error(`two runners are in one step of ${id}`)
        inside.add(id)
        await new Promise(resolve => setImmediate(resolve))
        inside.delete(id)
        const n = (runs.get(id) ?? 0) + 1
        runs.set(id, n)
        const write = async (tx: Parameters<NonNullable<Next<'one'>['write']>>[0]) => void (await tx.run(count, [id]))
        return n < rounds ? go('one', write) : done(write)
      },
    })
    const ids = await Promise.all(Array.from({ length: subjects }, () => world.create()))
    const runners = dbs.map(own => createRunner({ db: own, workflows: [m], log, workers: 8, pollMs: 50 }))
    await Promise.all(runners.map(runner => runner.start()))
    const poking = (async () => {
      for (let n = 0; n < 30; n++) await pokeMany(world.db, 'sample', ids)
    })()
    await until(async () => (await Promise.all(ids.map(world.read))).every(row => row === undefined), {
      what: 'all workflows to end',
    })
    await poking
    await Promise.all(runners.map(runner => runner.stop()))
    await Promise.all(dbs.map(own => own.close()))
    expect(await world.db.rows(counted)).toEqual(expect.arrayContaining(ids.map(id => ({ machine_id: id, n: rounds }))))
    expect([...runs.values()]).toEqual(ids.map(() => rounds))
  })
})

import { pino } from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { describeEachPostgres, type TestDatabase, testDatabase } from '../../test/support/database.ts'
import { until } from '../../test/support/wait.ts'
import { connectDb } from '../db/connect.ts'
import { type Db, statement } from '../db/db.ts'
import { newId } from '../lib/ids.ts'
import { type AnyMachine, done, go, machine, type Next, type Step, wait } from './machine.ts'
import { createMachine, createRunner, poke, pokeMany, readMachine, type Runner, type RunnerOptions } from './runner.ts'

const log = pino({ level: 'silent' })

type Handler = (step: Step<{ id: string }>) => Promise<Next<'one' | 'two' | 'ending'>>

/** A machine of two phases and an end, whose handlers a test gives. */
function sample(
  handlers: { one: Handler; two?: Handler; ending?: Handler },
  options: Partial<AnyMachine> = {},
): AnyMachine {
  const all: readonly ['one', 'two', 'ending'] = ['one', 'two', 'ending']
  return {
    ...machine<{ id: string }>()({
      kind: 'sample',
      edges: { one: all, two: all, ending: all },
      load: async id => ({ id }),
      phases: { two: async () => done(), ending: async () => done(), ...handlers },
    }),
    ...options,
  }
}

const alerts = statement<{ phase: string; open: boolean }>(
  'test.alerts',
  'SELECT phase, closed_at IS NULL AS open FROM alert ORDER BY opened_at',
)
const pending = statement<{ id: string }>('test.pending', 'SELECT id FROM machine_poke')
const makeDue = statement('test.due', 'UPDATE machine SET wake_at = now()')
const expireLeases = statement(
  'test.expire',
  "UPDATE machine SET lease_until = now() - interval '1 second' WHERE lease IS NOT NULL",
)
const expireDeadlines = statement(
  'test.overdue',
  "UPDATE machine SET deadline = now() - interval '1 second' WHERE deadline IS NOT NULL",
)

describeEachPostgres('runner', which => {
  let database: TestDatabase
  let db: Db
  const started: Runner[] = []
  beforeEach(async () => {
    database = await testDatabase(which)
    db = database.db
  })
  afterEach(async () => {
    await Promise.all(started.splice(0).map(runner => runner.stop({ drainMs: 0 })))
    await database.drop()
  })

  const runnerOf = (m: AnyMachine, options: Partial<RunnerOptions> = {}) => {
    const runner = createRunner({ db, machines: [m], log, ...options })
    started.push(runner)
    return runner
  }
  const create = (phase = 'one', options: Parameters<typeof createMachine>[4] = {}) => {
    const id = newId()
    return db.tx(tx => createMachine(tx, 'sample', id, phase, options)).then(() => id)
  }
  const read = (id: string) => readMachine(db, 'sample', id)
  const rest = (promise: Promise<unknown>) => promise

  test('go, wait and done, with what they write in the same commit', async () => {
    const id = await create()
    const note = statement('test.note', 'INSERT INTO sweep_run (name) VALUES ($1)')
    const noted = statement<{ name: string }>('test.noted', 'SELECT name FROM sweep_run ORDER BY name')
    const runner = runnerOf(
      sample({
        one: async () => go('two', async tx => void (await tx.run(note, ['go']))),
        two: async () => wait(60_000, async tx => void (await tx.run(note, ['wait']))),
      }),
    )
    expect(await runner.tickOnce()).toBe(1)
    expect((await read(id))?.phase).toBe('two')
    expect(await runner.tickOnce()).toBe(1)
    expect(await runner.tickOnce()).toBe(0)
    const waiting = await read(id)
    expect(waiting?.leased).toBe(false)
    expect((waiting?.wake_at.getTime() ?? 0) - Date.now()).toBeGreaterThan(50_000)
    expect(await db.rows(noted)).toEqual([{ name: 'go' }, { name: 'wait' }])
    await runnerOf(
      sample({ one: async () => done(), two: async () => done(async tx => void (await tx.run(note, ['zend']))) }),
    ).tickOnce()
    await poke(db, 'sample', id)
    await runnerOf(
      sample({ one: async () => done(), two: async () => done(async tx => void (await tx.run(note, ['zend']))) }),
    ).tickOnce()
    expect(await read(id)).toBeUndefined()
    await poke(db, 'sample', id)
    expect(await runner.tickOnce()).toBe(0)
    expect(await db.rows(pending)).toEqual([])
    expect((await db.rows(noted)).length).toBe(3)
  })

  test('a step sees its phase, tries and times, and a subject loaded for it', async () => {
    const id = await create()
    const steps: Step<{ id: string }>[] = []
    const runner = runnerOf(
      sample({
        one: async step => {
          steps.push(step)
          if (steps.length < 3) throw new Error('not yet')
          return done()
        },
      }),
    )
    for (let n = 0; n < 3; n++) {
      await db.run(makeDue)
      await runner.tickOnce()
    }
    expect(steps.map(({ attempt }) => attempt)).toEqual([0, 1, 2])
    expect(steps.every(({ subject, phase }) => subject.id === id && phase === 'one')).toBe(true)
    expect(steps.every(({ now, enteredAt }) => now >= enteredAt)).toBe(true)
  })

  test('a throw keeps the phase, counts the try, backs off and keeps the messages but no stack', async () => {
    const id = await create()
    const runner = runnerOf(
      sample({
        one: async () => {
          throw new Error('cannot place', { cause: new Error('no host has room') })
        },
      }),
      { random: () => 0 },
    )
    const pauses: number[] = []
    for (let n = 0; n < 4; n++) {
      await db.run(makeDue)
      await runner.tickOnce()
      pauses.push(((await read(id))?.wake_at.getTime() ?? 0) - Date.now())
    }
    expect(await read(id)).toMatchObject({
      phase: 'one',
      attempt: 4,
      leased: false,
      last_error: 'cannot place: no host has room',
    })
    expect(pauses.every((pause, n) => n === 0 || pause > (pauses[n - 1] ?? 0))).toBe(true)
    await db.run(makeDue)
    await runnerOf(sample({ one: async () => wait(1_000) })).tickOnce()
    expect(await read(id)).toMatchObject({ attempt: 0, last_error: null })
  })

  test('a write that throws rolls back the step and counts as a failed try', async () => {
    const id = await create()
    const refuse = async () => {
      throw new Error('sold out')
    }
    await runnerOf(sample({ one: async () => go('two', refuse) })).tickOnce()
    expect(await read(id)).toMatchObject({ phase: 'one', attempt: 1, last_error: 'sold out', leased: false })
  })

  /** What another runner does before each of its claims. */
  const deliver = () => createRunner({ db, machines: [], log }).tickOnce()

  test.each(['before the load', 'while the handler runs', 'after the commit'] as const)(
    'a poke %s is not lost',
    async moment => {
      const id = await create()
      let runs = 0
      const m = sample({
        one: async () => {
          if (++runs > 1) return done()
          if (moment === 'while the handler runs') await poke(db, 'sample', id).then(deliver)
          return wait(60_000)
        },
      })
      const load = async () => {
        if (moment === 'before the load' && runs === 0) await poke(db, 'sample', id).then(deliver)
        return { id }
      }
      const runner = runnerOf({ ...m, load })
      await runner.tickOnce()
      if (moment === 'after the commit') await poke(db, 'sample', id)
      expect(await runner.tickOnce()).toBe(1)
      expect(runs).toBe(2)
    },
  )

  test('a poke during a failing step is answered at once and not after the back-off', async () => {
    const id = await create()
    const m = sample({
      one: async () => {
        await poke(db, 'sample', id).then(deliver)
        throw new Error('no')
      },
    })
    const runner = runnerOf(m)
    await runner.tickOnce()
    expect(await runner.tickOnce()).toBe(1)
  })

  test('machines that poke each other from their commits do not deadlock', async () => {
    const [parent, child] = [await create(), await create()]
    const write = (other: string) => async (tx: Parameters<NonNullable<Next<'one'>['write']>>[0]) => {
      await poke(tx, 'sample', other)
      await tx.rows(statement('test.sleep', 'SELECT pg_sleep(0.02)'))
    }
    const outcomes: string[] = []
    let left = 20
    const m = sample({
      one: async ({ subject: { id } }) => (left-- > 0 ? wait(0, write(id === parent ? child : parent)) : done()),
    })
    const runner = runnerOf(m, { hooks: { step: ({ outcome }) => void outcomes.push(outcome) } })
    await runner.start()
    await until(async () => (await read(parent)) === undefined && (await read(child)) === undefined, {
      what: 'both to end',
    })
    expect(outcomes).not.toContain('failed')
  })

  test('preempt diverts from every phase but its own, before the handler runs', async () => {
    const ids = await Promise.all(['one', 'two', 'ending'].map(phase => create(phase)))
    const calls: string[] = []
    const note: Handler = async ({ phase }) => {
      calls.push(phase)
      return wait(60_000)
    }
    const runner = runnerOf(sample({ one: note, two: note, ending: note }, { preempt: () => 'ending' }))
    await runner.tickOnce()
    await runner.tickOnce()
    expect(calls).toEqual(['ending', 'ending', 'ending'])
    for (const id of ids) expect((await read(id))?.phase).toBe('ending')
  })

  test('a machine whose subject is gone ends by itself', async () => {
    const id = await create()
    const m = sample({ one: async () => wait(1) })
    await runnerOf({ ...m, load: async () => undefined }).tickOnce()
    expect(await read(id)).toBeUndefined()
  })

  test('phases and edges that do not exist are said clearly, and the machine stays', async () => {
    const [unknown, illegal, lost] = await Promise.all([create('gone'), create('one'), create('two')])
    const lie = (to: string) => async () => ({ do: 'go', to, write: undefined, deadlineMs: undefined }) as Next<'one'>
    const m = sample({ one: lie('two'), two: lie('nowhere') })
    await runnerOf({ ...m, edges: { one: [], two: [], ending: [] } }).tickOnce()
    expect((await read(unknown))?.last_error).toBe(
      'machine sample is in phase "gone", which this version of the program does not have',
    )
    expect((await read(illegal))?.last_error).toBe('BUG: machine sample has no edge from "one" to "two"')
    expect((await read(lost))?.last_error).toBe(
      'BUG: phase "two" of machine sample names phase "nowhere", which it does not have',
    )
    await db.run(makeDue)
    await runnerOf(sample({ one: async () => done() }, { preempt: () => 'nowhere' })).tickOnce()
    expect((await read(illegal))?.last_error).toMatch(/preempt of machine sample names phase "nowhere"/)
  })

  test('machines of other kinds are left to others', async () => {
    const id = newId()
    await db.tx(tx => createMachine(tx, 'other', id, 'one'))
    expect(await runnerOf(sample({ one: async () => done() })).tickOnce()).toBe(0)
    expect((await readMachine(db, 'other', id))?.leased).toBe(false)
  })

  test('an overdue phase opens one alert, and leaving the phase closes it', async () => {
    const events: string[] = []
    const id = await create('one', { deadlineMs: 60_000 })
    const hooks = {
      alert: ({ state, phase }: { state: string; phase: string }) => void events.push(`${phase} ${state}`),
    }
    const runner = runnerOf(sample({ one: async () => go('two', undefined, 60_000), two: async () => wait(0) }), {
      hooks,
    })
    await runner.upkeepOnce()
    expect(await db.rows(alerts)).toEqual([])
    await db.run(expireDeadlines)
    await runner.upkeepOnce()
    await runner.upkeepOnce()
    expect(await db.rows(alerts)).toEqual([{ phase: 'one', open: true }])
    await runner.tickOnce()
    expect(await db.rows(alerts)).toEqual([{ phase: 'one', open: false }])
    await db.run(expireDeadlines)
    await runner.upkeepOnce()
    await runner.tickOnce()
    expect((await db.rows(alerts)).map(({ open }) => open)).toEqual([false, true])
    await db.run(statement('test.drop', 'DELETE FROM machine WHERE id = $1'), [id])
    await runner.upkeepOnce()
    expect((await db.rows(alerts)).map(({ open }) => open)).toEqual([false, false])
    expect(events).toEqual(['one opened', 'two opened', 'two closed'])
  })

  test('a step that outlives its lease is told to end, and one that ignores that is left behind', async () => {
    const [polite, deaf] = [await create('one'), await create('two')]
    const outcomes: string[] = []
    const late = Promise.withResolvers<Next<'one'>>()
    const runner = runnerOf(
      sample({
        one: ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
        two: () => late.promise,
      }),
      { leaseMs: 200, hooks: { step: ({ phase, outcome }) => void outcomes.push(`${phase} ${outcome}`) } },
    )
    expect(await runner.tickOnce()).toBe(2)
    expect(outcomes.sort()).toEqual(['one failed', 'two abandoned'])
    expect((await read(polite))?.last_error).toMatch(/in phase one took longer than 160 ms/)
    expect((await read(deaf))?.last_error).toMatch(/in phase two did not end 180 ms after it began/)
    late.resolve(go('one'))
    await until(async () => (await read(deaf))?.attempt === 1, { what: 'the failed try' })
    expect((await read(deaf))?.phase).toBe('two')
  })

  test('a runner that lost its lease writes nothing', async () => {
    const id = await create()
    const outcomes: string[] = []
    const write = async () => {
      throw new Error('BUG: written behind a lost fence')
    }
    const slow = runnerOf(
      sample({
        one: async () => {
          await db.run(expireLeases)
          await runnerOf(sample({ one: async () => go('two') })).tickOnce()
          return go('ending', write)
        },
      }),
      { hooks: { step: ({ outcome }) => void outcomes.push(outcome) } },
    )
    await slow.tickOnce()
    expect(outcomes).toEqual(['lost'])
    expect((await read(id))?.phase).toBe('two')
  })

  test('a started runner wakes up by notification, by time, and for what was due before it started', async () => {
    const seen: string[] = []
    const before = await create()
    const runner = runnerOf(sample({ one: async ({ subject }) => (seen.push(subject.id), wait(3_600_000)) }), {
      pollMs: 3_600_000,
    })
    await runner.start()
    await until(() => seen.includes(before), { what: 'the one that was due' })
    const created = await create()
    await until(() => seen.includes(created), { what: 'the new one' })
    await poke(db, 'sample', before)
    await until(() => seen.filter(id => id === before).length === 2, { what: 'the poked one' })
    const later = await create('one', { wakeAt: new Date(Date.now() + 150) })
    // A notification tells of the row; nothing tells of the moment.
    await until(() => seen.includes(later), { what: 'the one with a time' })
    expect(seen.filter(id => id === created).length).toBe(1)
  })

  test('a rolled back creation or poke never happened', async () => {
    const id = newId()
    await rest(
      db
        .tx(async tx => {
          await createMachine(tx, 'sample', id, 'one')
          throw new Error('roll back')
        })
        .catch(() => undefined),
    )
    expect(await read(id)).toBeUndefined()
  })

  test('stop drains: running steps end, nothing new begins', async () => {
    const ids = [await create(), await create()]
    const entered = Promise.withResolvers<void>()
    const gate = Promise.withResolvers<void>()
    const runner = runnerOf(
      sample({ one: async () => (entered.resolve(), await gate.promise, go('two')), two: async () => wait(0) }),
      { workers: 1 },
    )
    await runner.start()
    await entered.promise
    const stopped = runner.stop()
    gate.resolve()
    await stopped
    const rows = await Promise.all(ids.map(read))
    expect(rows.map(row => row?.phase).sort()).toEqual(['one', 'two'])
    expect(rows.every(row => row?.leased === false)).toBe(true)
  })

  test('stop without patience gives the machine back without a failed try', async () => {
    const id = await create()
    const entered = Promise.withResolvers<void>()
    const runner = runnerOf(sample({ one: () => (entered.resolve(), new Promise(() => undefined)) }))
    await runner.start()
    await entered.promise
    await runner.stop({ drainMs: 0 })
    expect(await read(id)).toMatchObject({ leased: false, attempt: 0, last_error: null })
  })

  test('what a dead runner held is taken over at once, and not what a live one holds', async () => {
    const doomed = await connectDb({ url: database.url, log })
    const id = await create()
    const entered = Promise.withResolvers<void>()
    const hang = sample({ one: () => (entered.resolve(), new Promise(() => undefined)) })
    const dead = createRunner({ db: doomed, machines: [hang], log, workers: 1 })
    await dead.start()
    await entered.promise
    const survivor = runnerOf(sample({ one: async () => go('two'), two: async () => wait(60_000) }))
    await survivor.start()
    await survivor.upkeepOnce()
    expect((await read(id))?.leased).toBe(true)
    // What a SIGKILL does to its sessions.
    const killOthers = statement(
      'test.kill',
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'mote-lock runner%' AND datname = current_database() AND pid <> pg_backend_pid() AND backend_start <= (SELECT min(backend_start) FROM pg_stat_activity WHERE application_name LIKE 'mote-lock runner%' AND datname = current_database())",
    )
    await db.rows(killOthers)
    await until(async () => (await read(id))?.phase === 'two', { what: 'the take-over' })
    await dead.stop({ drainMs: 0 })
    await doomed.close()
  })

  test('eight runners on connections of their own: every step once for each commit', async () => {
    const subjects = 60
    const rounds = 5
    const runs = new Map<string, number>()
    const dbs = await Promise.all(
      Array.from({ length: 8 }, () =>
        connectDb({ url: database.url, log, autocommitConnections: 1, txConnections: 2 }),
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
    const ids = await Promise.all(Array.from({ length: subjects }, () => create()))
    const runners = dbs.map(own => createRunner({ db: own, machines: [m], log, workers: 8, pollMs: 50 }))
    await Promise.all(runners.map(runner => runner.start()))
    const poking = (async () => {
      for (let n = 0; n < 30; n++) await pokeMany(db, 'sample', ids)
    })()
    await until(async () => (await Promise.all(ids.map(read))).every(row => row === undefined), {
      what: 'all machines to end',
      timeoutMs: 15_000,
    })
    await poking
    await Promise.all(runners.map(runner => runner.stop()))
    await Promise.all(dbs.map(own => own.close()))
    expect(await db.rows(counted)).toEqual(expect.arrayContaining(ids.map(id => ({ machine_id: id, n: rounds }))))
    expect([...runs.values()]).toEqual(ids.map(() => rounds))
  })
})

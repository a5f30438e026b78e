/** The effect of a single step: what each decision, error or poke writes. */
import { expect, test } from 'vitest'
import { describeEachPostgres } from '../../test/support/database.ts'
import { until } from '../../test/support/wait.ts'
import { statement } from '../db/db.ts'
import { newId } from '../lib/ids.ts'
import { done, go, type Next, type Step, wait } from './workflow.ts'
import { createWorkflow, createRunner, poke, readWorkflow } from './runner.ts'
import { type Handler, log, makeDue, sample, sampleWorld } from '../../test/support/engine.ts'

const pending = statement<{ id: string }>('test.pending', 'SELECT id FROM machine_poke')

describeEachPostgres('steps of a runner', which => {
  const world = sampleWorld(which)

  test('`go`, `wait` and `done` commit the decision and the writes of the handler together', async () => {
    const id = await world.create()
    const note = statement('test.note', 'INSERT INTO sweep_run (name) VALUES ($1)')
    const noted = statement<{ name: string }>('test.noted', 'SELECT name FROM sweep_run ORDER BY name')
    const runner = world.runnerOf(
      sample({
        one: async () => go('two', async tx => void (await tx.run(note, ['go']))),
        two: async () => wait(60_000, async tx => void (await tx.run(note, ['wait']))),
      }),
    )
    expect(await runner.tickOnce()).toBe(1)
    expect((await world.read(id))?.phase).toBe('two')
    expect(await runner.tickOnce()).toBe(1)
    expect(await runner.tickOnce()).toBe(0)
    const waiting = await world.read(id)
    expect(waiting?.leased).toBe(false)
    expect((waiting?.wake_at.getTime() ?? 0) - Date.now()).toBeGreaterThan(50_000)
    expect(await world.db.rows(noted)).toEqual([{ name: 'go' }, { name: 'wait' }])
    await world
      .runnerOf(
        sample({ one: async () => done(), two: async () => done(async tx => void (await tx.run(note, ['zend']))) }),
      )
      .tickOnce()
    await poke(world.db, 'sample', id)
    await world
      .runnerOf(
        sample({ one: async () => done(), two: async () => done(async tx => void (await tx.run(note, ['zend']))) }),
      )
      .tickOnce()
    expect(await world.read(id)).toBeUndefined()
    await poke(world.db, 'sample', id)
    expect(await runner.tickOnce()).toBe(0)
    expect(await world.db.rows(pending)).toEqual([])
    expect((await world.db.rows(noted)).length).toBe(3)
  })

  test('a handler gets its phase, attempt count, times and a freshly loaded subject', async () => {
    const id = await world.create()
    const steps: Step<{ id: string }>[] = []
    const runner = world.runnerOf(
      sample({
        one: async step => {
          steps.push(step)
          if (steps.length < 3) throw new Error('not yet')
          return done()
        },
      }),
    )
    for (let n = 0; n < 3; n++) {
      await world.db.run(makeDue)
      await runner.tickOnce()
    }
    expect(steps.map(({ attempt }) => attempt)).toEqual([0, 1, 2])
    expect(steps.every(({ subject, phase }) => subject.id === id && phase === 'one')).toBe(true)
    expect(steps.every(({ now, enteredAt }) => now >= enteredAt)).toBe(true)
  })

  test('an error keeps the phase, counts the attempt, backs off and stores the error messages without a stack', async () => {
    const id = await world.create()
    const runner = world.runnerOf(
      sample({
        one: async () => {
          throw new Error('cannot place', { cause: new Error('no host has room') })
        },
      }),
      { random: () => 0 },
    )
    const pauses: number[] = []
    for (let n = 0; n < 4; n++) {
      await world.db.run(makeDue)
      await runner.tickOnce()
      pauses.push(((await world.read(id))?.wake_at.getTime() ?? 0) - Date.now())
    }
    expect(await world.read(id)).toMatchObject({
      phase: 'one',
      attempt: 4,
      leased: false,
      last_error: 'cannot place: no host has room',
    })
    expect(pauses.every((pause, n) => n === 0 || pause > (pauses[n - 1] ?? 0))).toBe(true)
    await world.db.run(makeDue)
    await world.runnerOf(sample({ one: async () => wait(1_000) })).tickOnce()
    expect(await world.read(id)).toMatchObject({ attempt: 0, last_error: null })
  })

  test('a write that throws rolls back the step and counts as a failed attempt', async () => {
    const id = await world.create()
    const refuse = async () => {
      throw new Error('sold out')
    }
    await world.runnerOf(sample({ one: async () => go('two', refuse) })).tickOnce()
    expect(await world.read(id)).toMatchObject({ phase: 'one', attempt: 1, last_error: 'sold out', leased: false })
  })

  /** Delivers pokes, as another runner would do before each claim. */
  const deliver = () => createRunner({ db: world.db, workflows: [], log }).tickOnce()

  test.each(['before the load', 'while the handler runs', 'after the commit'] as const)(
    'a poke %s of a step is not lost',
    async moment => {
      const id = await world.create()
      let runs = 0
      const m = sample({
        one: async () => {
          if (++runs > 1) return done()
          if (moment === 'while the handler runs') await poke(world.db, 'sample', id).then(deliver)
          return wait(60_000)
        },
      })
      const load = async () => {
        if (moment === 'before the load' && runs === 0) await poke(world.db, 'sample', id).then(deliver)
        return { id }
      }
      const runner = world.runnerOf({ ...m, load })
      await runner.tickOnce()
      if (moment === 'after the commit') await poke(world.db, 'sample', id)
      expect(await runner.tickOnce()).toBe(1)
      expect(runs).toBe(2)
    },
  )

  test('a poke during a failing step causes an immediate retry without back-off', async () => {
    const id = await world.create()
    const m = sample({
      one: async () => {
        await poke(world.db, 'sample', id).then(deliver)
        throw new Error('no')
      },
    })
    const runner = world.runnerOf(m)
    await runner.tickOnce()
    expect(await runner.tickOnce()).toBe(1)
  })

  test('workflows that poke each other in their commits do not deadlock', async () => {
    const [parent, child] = [await world.create(), await world.create()]
    const write = (other: string) => async (tx: Parameters<NonNullable<Next<'one'>['write']>>[0]) => {
      await poke(tx, 'sample', other)
      await tx.rows(statement('test.sleep', 'SELECT pg_sleep(0.02)'))
    }
    const outcomes: string[] = []
    let left = 20
    const m = sample({
      one: async ({ subject: { id } }) => (left-- > 0 ? wait(0, write(id === parent ? child : parent)) : done()),
    })
    const runner = world.runnerOf(m, { hooks: { step: ({ outcome }) => void outcomes.push(outcome) } })
    await runner.start()
    await until(async () => (await world.read(parent)) === undefined && (await world.read(child)) === undefined, {
      what: 'both to end',
    })
    expect(outcomes).not.toContain('failed')
  })

  test('`preempt` diverts a workflow before the handler runs, from every phase except the target itself', async () => {
    const ids = await Promise.all(['one', 'two', 'ending'].map(phase => world.create(phase)))
    const calls: string[] = []
    const note: Handler = async ({ phase }) => {
      calls.push(phase)
      return wait(60_000)
    }
    const runner = world.runnerOf(sample({ one: note, two: note, ending: note }, { preempt: () => 'ending' }))
    await runner.tickOnce()
    await runner.tickOnce()
    expect(calls).toEqual(['ending', 'ending', 'ending'])
    for (const id of ids) expect((await world.read(id))?.phase).toBe('ending')
  })

  test('a workflow whose subject no longer exists ends', async () => {
    const id = await world.create()
    const m = sample({ one: async () => wait(1) })
    await world.runnerOf({ ...m, load: async () => undefined }).tickOnce()
    expect(await world.read(id)).toBeUndefined()
  })

  test('unknown phases and illegal edges are recorded as errors, and the workflow is kept', async () => {
    const [unknown, illegal, lost] = await Promise.all([world.create('gone'), world.create('one'), world.create('two')])
    const lie = (to: string) => async () => ({ do: 'go', to, write: undefined, deadlineMs: undefined }) as Next<'one'>
    const m = sample({ one: lie('two'), two: lie('nowhere') })
    await world.runnerOf({ ...m, edges: { one: [], two: [], ending: [] } }).tickOnce()
    expect((await world.read(unknown))?.last_error).toBe(
      'workflow sample is in phase "gone", which this version of the program does not have',
    )
    expect((await world.read(illegal))?.last_error).toBe('BUG: workflow sample has no edge from "one" to "two"')
    expect((await world.read(lost))?.last_error).toBe(
      'BUG: phase "two" of workflow sample names phase "nowhere", which it does not have',
    )
    await world.db.run(makeDue)
    await world.runnerOf(sample({ one: async () => done() }, { preempt: () => 'nowhere' })).tickOnce()
    expect((await world.read(illegal))?.last_error).toMatch(/preempt of workflow sample names phase "nowhere"/)
  })

  test('a runner does not claim workflows of kinds that it does not run', async () => {
    const id = newId()
    await world.db.tx(tx => createWorkflow(tx, 'other', id, 'one'))
    expect(await world.runnerOf(sample({ one: async () => done() })).tickOnce()).toBe(0)
    expect((await readWorkflow(world.db, 'other', id))?.leased).toBe(false)
  })
})

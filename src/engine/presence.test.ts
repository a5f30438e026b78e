import { expect, test } from 'vitest'
import { describeEachPostgres } from '../../test/support/database.ts'
import { until } from '../../test/support/wait.ts'
import type { Db } from '../db/db.ts'
import { done, type Next } from './workflow.ts'
import { sample, sampleWorld } from '../../test/support/engine.ts'

describeEachPostgres('the lock that marks a runner as alive', which => {
  const world = sampleWorld(which)

  test('a runner that cannot take its lock retries with increasing pauses, even while it drains', async () => {
    await world.create('one')
    const tries: number[] = []
    const cut = new AbortController()
    const begun = Promise.withResolvers<void>()
    const end = Promise.withResolvers<Next<'one'>>()
    const away: Db = {
      ...world.db,
      async withLockedSession(name, work) {
        tries.push(performance.now())
        if (tries.length > 1) throw new Error('the database is starting up')
        return world.db.withLockedSession(name, lost => work(AbortSignal.any([lost, cut.signal])))
      },
    }
    const one = () => {
      begun.resolve()
      return end.promise
    }
    const runner = world.runnerOf(sample({ one }), { db: away, random: () => 0 })
    await runner.start()
    await begun.promise
    const stopped = runner.stop()
    cut.abort()
    await until(() => tries.length >= 4, { what: 'three more attempts' })
    end.resolve(done())
    await stopped
    const [, second = 0, third = 0, fourth = 0] = tries
    // Timers may fire a millisecond early.
    expect(third - second).toBeGreaterThan(195)
    expect(fourth - third).toBeGreaterThan(395)
  })

  test('a start that cannot take the lock fails with the reason', async () => {
    const away: Db = { ...world.db, withLockedSession: () => Promise.reject(new Error('the database is starting up')) }
    const runner = world.runnerOf(sample({ one: async () => done() }), { db: away })
    await expect(runner.start()).rejects.toThrow('the database is starting up')
  })
})

import { pino } from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { describeEachPostgres, type TestDatabase, testDatabase } from '../../test/support/database.ts'
import { until } from '../../test/support/wait.ts'
import { connectDb } from '../db/connect.ts'
import type { Db } from '../db/db.ts'
import type { Sweep } from './sweep.ts'
import { createSweeper, listSweepRuns, pokeSweep, type Sweeper } from './sweeper.ts'

const log = pino({ level: 'silent' })
const hour = 3_600_000

describeEachPostgres('sweeper', which => {
  let database: TestDatabase
  let db: Db
  const started: Sweeper[] = []
  const opened: Db[] = []
  beforeEach(async () => {
    database = await testDatabase(which)
    db = database.db
  })
  afterEach(async () => {
    await Promise.all(started.splice(0).map(sweeper => sweeper.stop({ drainMs: 0 })))
    await Promise.all(opened.splice(0).map(own => own.close()))
    await database.drop()
  })

  const start = async (sweep: Sweep, own = db) => {
    const sweeper = createSweeper({ db: own, sweeps: [sweep], log })
    started.push(sweeper)
    await sweeper.start()
    return sweeper
  }
  const run = async (name: string) => (await listSweepRuns(db)).find(row => row.name === name)

  test('a sweep runs at startup, stores its result, and does not run again before its interval has passed', async () => {
    let calls = 0
    const sweep = { name: 'tokens', everyMs: hour, run: async () => ({ expired: ++calls }) }
    const sweeper = await start(sweep)
    await until(async () => (await run('tokens'))?.result, { what: 'the first run' })
    expect(await run('tokens')).toMatchObject({ result: { expired: 1 }, error: null, runs: 1, failures_in_a_row: 0 })
    expect((await run('tokens'))?.duration_ms).toBeGreaterThanOrEqual(0)
    expect(await sweeper.runDue('tokens')).toBe(false)
    expect(calls).toBe(1)
  })

  test('a sweep runs on its timer', async () => {
    let calls = 0
    await start({ name: 'often', everyMs: 20, run: async () => ({ calls: ++calls }) })
    await until(() => calls >= 3, { what: 'three runs' })
  })

  test('a poke starts a run at once, and a poke during a run starts another one', async () => {
    const gate = Promise.withResolvers<void>()
    let calls = 0
    await start({
      name: 'hosts',
      everyMs: hour,
      run: async () => {
        if (++calls === 2) await gate.promise
        return { calls }
      },
    })
    await until(async () => (await run('hosts'))?.runs === 1 && (await run('hosts'))?.result, { what: 'the first run' })
    await pokeSweep(db, 'hosts')
    await until(() => calls === 2, { what: 'the poked run' })
    await pokeSweep(db, 'hosts')
    gate.resolve()
    await until(() => calls === 3, { what: 'the run after the second poke' })
    await until(async () => (await run('hosts'))?.runs === 3, { what: 'the record' })
  })

  test('a failure is stored and counted, and the next success clears it', async () => {
    let fail = true
    await start({
      name: 'billing',
      everyMs: 20,
      run: async () => {
        if (fail) throw new Error('provider is down', { cause: new Error('ECONNREFUSED') })
        return { synced: 1 }
      },
    })
    const failed = await until(async () => ((await run('billing'))?.failures_in_a_row ?? 0) >= 2 && run('billing'), {
      what: 'two failures',
    })
    expect(failed).toMatchObject({ error: 'provider is down: ECONNREFUSED', result: null })
    fail = false
    await until(async () => (await run('billing'))?.result, { what: 'a success' })
    expect(await run('billing')).toMatchObject({ error: null, failures_in_a_row: 0, result: { synced: 1 } })
  })

  test('six processes run a sweep one at a time and once per interval', async () => {
    let running = 0
    let most = 0
    let calls = 0
    const sweep = {
      name: 'shared',
      everyMs: hour,
      run: async () => {
        most = Math.max(most, ++running)
        await new Promise(resolve => setImmediate(resolve))
        running--
        return { calls: ++calls }
      },
    }
    const dbs = await Promise.all(
      Array.from({ length: 6 }, () => connectDb({ url: database.url, log, autocommitConnections: 1 })),
    )
    opened.push(...dbs)
    await Promise.all(dbs.map(own => start(sweep, own)))
    await until(() => calls === 1, { what: 'the first run' })
    for (let turn = 2; turn <= 6; turn++) {
      await pokeSweep(db, 'shared')
      await until(() => calls === turn, { what: `run ${turn}` })
    }
    expect(most).toBe(1)
    expect((await run('shared'))?.runs).toBe(6)
  })

  test('`stop` without a drain time aborts a running sweep and records its error', async () => {
    const entered = Promise.withResolvers<void>()
    const sweeper = await start({
      name: 'slow',
      everyMs: hour,
      run: ({ signal }) => {
        entered.resolve()
        return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))))
      },
    })
    await entered.promise
    await sweeper.stop({ drainMs: 0 })
    expect(await run('slow')).toMatchObject({ error: 'aborted' })
  })

  test('running an unknown sweep fails with the names of the known ones', async () => {
    const sweeper = await start({ name: 'known', everyMs: hour, run: async () => ({}) })
    await expect(sweeper.runDue('unknown')).rejects.toThrow('no sweep is called "unknown"; there are: known')
  })
})

import { pino } from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { describeEachPostgres, type TestDatabase, testDatabase } from '../../test/support/database.ts'
import { connectDb } from './connect.ts'
import { type Db, statement, type Tx } from './db.ts'
import { uniqueViolation } from './errors.ts'

const sql = {
  table: statement('u.table', 'CREATE TABLE u (id int PRIMARY KEY)'),
  insert: statement('u.insert', 'INSERT INTO u (id) VALUES ($1)'),
  ids: statement<{ id: number }>('u.ids', 'SELECT id FROM u ORDER BY id'),
  count: statement<{ count: number }>('u.count', 'SELECT count(*)::int AS count FROM u'),
  pid: statement<{ pid: number }>('u.pid', 'SELECT pg_backend_pid() AS pid'),
  document: statement('u.document', 'SELECT $1::jsonb'),
  forgetBegin: statement('u.forgetBegin', 'DEALLOCATE "mote.begin"'),
}
const boom = new Error('boom')
const ids = async (db: Db) => (await db.rows(sql.ids)).map(({ id }) => id)

describeEachPostgres('transactions', which => {
  let database: TestDatabase
  let db: Db
  beforeEach(async () => {
    database = await testDatabase(which)
    db = await connectDb({ url: database.url, log: pino({ level: 'silent' }), txConnections: 1 })
    await db.run(sql.table)
  })
  afterEach(async () => {
    await db.close()
    await database.drop()
  })

  // The first transaction on a connection prepares BEGIN as a statement of its own; later ones send BEGIN together with
  // their first statement.
  for (const [name, warm] of [
    ['first', 0],
    ['second', 1],
  ] as const) {
    const warmUp = async () => {
      for (let n = 0; n < warm; n++) await db.tx(tx => tx.rows(sql.ids))
    }

    test(`the ${name} transaction on a connection is atomic, including its first statement`, async () => {
      await warmUp()
      const rolledBack = db.tx(async tx => {
        expect(await tx.run(sql.insert, [1])).toBe(1)
        throw boom
      })
      await expect(rolledBack).rejects.toBe(boom)
      expect(await ids(db)).toEqual([])
      await db.tx(tx => tx.run(sql.insert, [1]))
      expect(await ids(db)).toEqual([1])
    })

    test(`the ${name} transaction on a connection includes concurrent statements`, async () => {
      await warmUp()
      const rolledBack = db.tx(async tx => {
        const before = tx.one(sql.count)
        const writes = [1, 2, 3].map(id => tx.run(sql.insert, [id]))
        const after = tx.one(sql.count)
        await Promise.all(writes)
        expect([(await before).count, (await after).count]).toEqual([0, 3])
        throw boom
      })
      await expect(rolledBack).rejects.toBe(boom)
      expect(await ids(db)).toEqual([])
    })

    test(`the ${name} transaction on a connection rolls back all concurrent statements when one fails`, async () => {
      await warmUp()
      const rolledBack = db.tx(tx =>
        Promise.all([tx.run(sql.insert, [1]), tx.run(sql.insert, [2]), Promise.reject(boom)]),
      )
      await expect(rolledBack).rejects.toBe(boom)
      await db.tx(tx => tx.run(sql.insert, [3]))
      expect(await ids(db)).toEqual([3])
    })

    test(`the ${name} transaction on a connection refuses an invalid parameter, and the connection stays usable`, async () => {
      await warmUp()
      const refused = db.tx(tx => tx.rows(sql.document, [{ bigint: 1n }]))
      await expect(refused).rejects.toThrow(/BigInt/)
      await db.tx(tx => tx.run(sql.insert, [1]))
      expect(await ids(db)).toEqual([1])
    })

    test(`the ${name} transaction on a connection reports a failed first statement, and the connection stays usable`, async () => {
      await db.run(sql.insert, [1])
      await warmUp()
      const { pid } = await db.tx(tx => tx.one(sql.pid))
      const twice = db.tx(tx => tx.run(sql.insert, [1]))
      await expect(twice).rejects.toSatisfy(error => uniqueViolation(error))
      expect(await db.tx(tx => tx.one(sql.pid))).toEqual({ pid })
      await db.tx(tx => tx.run(sql.insert, [2]))
      expect(await ids(db)).toEqual([1, 2])
    })
  }

  test('if BEGIN fails, nothing is written, and the next transaction gets a working connection', async () => {
    await db.tx(tx => tx.rows(sql.ids))
    await db.tx(tx => tx.run(sql.forgetBegin))
    const together = db.tx(tx => Promise.all([tx.run(sql.insert, [1]), tx.run(sql.insert, [2])]))
    await expect(together).rejects.toThrow(/prepared statement "mote.begin" does not exist/)
    expect(await ids(db)).toEqual([])
    await db.tx(tx => tx.run(sql.insert, [3]))
    expect(await ids(db)).toEqual([3])
  })

  test('a transaction fails if its first statement failed, even if the caller swallowed the error', async () => {
    await db.run(sql.insert, [1])
    const swallowed = db.tx(async tx => {
      await tx.run(sql.insert, [1]).catch(() => undefined)
    })
    await expect(swallowed).rejects.toThrow(/its error was swallowed/)
  })

  test('statements added with `atCommit` run in order, after all others', async () => {
    await db.tx(async tx => {
      tx.atCommit(sql.insert, [1])
      tx.atCommit(sql.insert, [2])
      expect(await tx.one(sql.count)).toEqual({ count: 0 })
    })
    expect(await ids(db)).toEqual([1, 2])
  })

  test('a transaction may consist of `atCommit` statements only, or of no statements', async () => {
    for (const id of [1, 2]) await db.tx(async tx => tx.atCommit(sql.insert, [id]))
    await db.tx(async () => undefined)
    expect(await ids(db)).toEqual([1, 2])
  })

  test('a failing `atCommit` statement rolls back the transaction, which rejects with its error', async () => {
    await db.run(sql.insert, [1])
    const failing = db.tx(async tx => {
      await tx.run(sql.insert, [2])
      tx.atCommit(sql.insert, [3])
      tx.atCommit(sql.insert, [1])
      tx.atCommit(sql.insert, [4])
    })
    await expect(failing).rejects.toSatisfy(error => uniqueViolation(error))
    expect(await ids(db)).toEqual([1])
    await db.tx(tx => tx.run(sql.insert, [5]))
    expect(await ids(db)).toEqual([1, 5])
  })

  test('a transaction that has ended accepts no statement', async () => {
    const kept: Tx[] = []
    await db.tx(async tx => void kept.push(tx))
    const rolledBack = db.tx(async tx => {
      kept.push(tx)
      await tx.rows(sql.ids)
      throw boom
    })
    await expect(rolledBack).rejects.toBe(boom)
    for (const tx of kept) {
      await expect(tx.run(sql.insert, [1])).rejects.toThrow('after the end of its transaction')
      expect(() => tx.atCommit(sql.insert, [1])).toThrow('after the end of its transaction')
    }
    expect(await ids(db)).toEqual([])
  })

  test('nested savepoints preserve earlier writes, including those added with `atCommit`', async () => {
    await db.tx(async tx => {
      await tx.run(sql.insert, [1])
      tx.atCommit(sql.insert, [2])
      const outer = tx.savepoint(async () => {
        await tx.run(sql.insert, [3])
        tx.atCommit(sql.insert, [4])
        const inner = tx.savepoint(() => tx.run(sql.insert, [1]))
        await expect(inner).rejects.toSatisfy(error => uniqueViolation(error))
        throw boom
      })
      await expect(outer).rejects.toBe(boom)
      await tx.savepoint(() => tx.run(sql.insert, [5]))
    })
    expect(await ids(db)).toEqual([1, 2, 5])
  })

  test('a rollback discards `atCommit` statements', async () => {
    const rolledBack = db.tx(async tx => {
      tx.atCommit(sql.insert, [1])
      throw boom
    })
    await expect(rolledBack).rejects.toBe(boom)
    expect(await ids(db)).toEqual([])
  })
})

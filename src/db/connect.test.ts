import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { runsAll } from '../../test/support/all-examples.ts'
import { cutWhen } from '../../test/support/cut.ts'
import { describeEachPostgres, type TestDatabase, testDatabase } from '../../test/support/database.ts'
import { until } from '../../test/support/wait.ts'
import { connectDb } from './connect.ts'
import { type Db, type Statement, statement } from './db.ts'
import {
  checkViolation,
  DbUnavailable,
  foreignKeyViolation,
  retryable,
  StatementError,
  uniqueViolation,
} from './errors.ts'

const log = pino({ level: 'silent' })
const sql = {
  table: statement(
    't.table',
    'CREATE TABLE t (id int CONSTRAINT t_key PRIMARY KEY, n int CONSTRAINT n_small CHECK (n < 10), other int REFERENCES t)',
  ),
  insert: statement('t.insert', 'INSERT INTO t (id, n) VALUES ($1, $2)'),
  refer: statement('t.refer', 'INSERT INTO t (id, other) VALUES ($1, $2)'),
  ids: statement<{ id: number }>('t.ids', 'SELECT id FROM t ORDER BY id'),
  add: statement('t.add', 'UPDATE t SET n = n + 1 WHERE id = $1'),
  pid: statement<{ pid: number }>('t.pid', 'SELECT pg_backend_pid() AS pid'),
  leads: statement<{ pid: number }>('t.leads', 'SELECT pg_backend_pid() AS pid', { leads: 1 }),
  slowPid: statement<{ pid: number }>('t.slow_pid', 'SELECT pg_backend_pid() AS pid FROM pg_sleep(0.2)'),
  kill: statement(
    't.kill',
    'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE $1',
  ),
  sessions: statement<{ count: number }>(
    't.sessions',
    'SELECT count(*) AS count FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1',
  ),
  notify: statement('t.notify', 'SELECT pg_notify($1, $2)'),
  long: statement('t.long', 'SELECT pg_sleep(1.5)'),
  now: statement<{ now: Date }>('t.now', 'SELECT now() AS now'),
}

const caught = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

describeEachPostgres('connectDb', which => {
  let database: TestDatabase
  let db: Db
  beforeEach(async () => {
    database = await testDatabase(which)
    db = database.db
    await db.run(sql.table)
  })
  afterEach(() => database.drop())

  test('statements issued in the same turn as one with `leads` share its connection, and others do not wait behind a slow one', async () => {
    const pidOf = async (asked = sql.pid) => (await db.one(asked)).pid
    const [leader, along, third] = await Promise.all([pidOf(sql.leads), pidOf(), pidOf()])
    expect(along).toBe(leader)
    expect(third).not.toBe(leader)
    const order: string[] = []
    const noted = (name: string, asked: Promise<number>) => asked.then(pid => (order.push(name), pid))
    const slow = noted('slow', pidOf(sql.slowPid))
    const beside = await Promise.all([
      noted('beside', pidOf()),
      noted('leader', pidOf(sql.leads)),
      noted('along', pidOf()),
    ])
    expect(order).toEqual(expect.arrayContaining(['beside', 'leader', 'along']))
    expect(order).not.toContain('slow')
    expect(beside).not.toContain(await slow)
    expect(beside[1]).toBe(beside[2])
  })

  test('int8 is returned as a number, timestamptz as a Date and jsonb parsed, and the same types are accepted as parameters', async () => {
    const row = await db.one(
      statement<Record<string, unknown>>(
        't.types',
        'SELECT $1::int8 AS big, $2::timestamptz AS at, $3::jsonb AS doc, $4::text[] AS list, $5::bytea AS raw, count(*) AS n, $6::text AS none, $7::int8[] AS bigs',
      ),
      [
        9_007_199_254_740_991n,
        new Date(1_700_000_000_123),
        { a: [1, 'x'] },
        ['p', 'q"{'],
        Buffer.from([0, 255]),
        null,
        [1, 2],
      ],
    )
    expect(row).toEqual({
      big: 9_007_199_254_740_991,
      at: new Date(1_700_000_000_123),
      doc: { a: [1, 'x'] },
      list: ['p', 'q"{'],
      raw: Buffer.from([0, 255]),
      n: 1,
      none: null,
      bigs: [1, 2],
    })
    await expect(db.one(statement('t.huge', 'SELECT 9007199254740993::int8 AS n'))).rejects.toThrow(/too large/)
  })

  test('`rows`, `one`, `maybe` and `run` return all rows, the only row, the first row if any, and the number of affected rows', async () => {
    expect(await db.run(sql.insert, [1, 1])).toBe(1)
    expect(await db.rows(sql.ids)).toEqual([{ id: 1 }])
    expect(await db.maybe(sql.ids)).toEqual({ id: 1 })
    expect(await db.one(sql.ids)).toEqual({ id: 1 })
    await db.run(sql.insert, [2, 1])
    await expect(db.one(sql.ids)).rejects.toThrow('BUG: statement t.ids returned 2 rows instead of one')
    expect(await db.run(sql.add, [99])).toBe(0)
  })

  test('each statement is prepared once per connection, even if its first executions are concurrent', async () => {
    await Promise.all(Array.from({ length: 40 }, () => db.rows(sql.ids)))
    const prepared = statement<{ n: number }>(
      't.prepared',
      "SELECT count(*) AS n FROM pg_prepared_statements WHERE name = 't.ids'",
    )
    for (let n = 0; n < 8; n++) expect((await db.one(prepared)).n).toBe(1)
  })

  test('errors are classified and name the statement', async () => {
    await db.run(sql.insert, [1, 1])
    const twice = await caught(db.run(sql.insert, [1, 1]))
    expect(uniqueViolation(twice)).toBe(true)
    expect(uniqueViolation(twice, 't_key')).toBe(true)
    expect(uniqueViolation(twice, 'another')).toBe(false)
    expect(twice).toBeInstanceOf(StatementError)
    expect(String(twice)).toContain('t.insert')
    expect(checkViolation(await caught(db.run(sql.insert, [2, 99])), 'n_small')).toBe(true)
    expect(foreignKeyViolation(await caught(db.tx(tx => tx.run(sql.refer, [3, 77]))))).toBe(true)
    expect(retryable(twice)).toBe(false)
  })

  test('a failing statement does not affect other statements pending on the same connection', async () => {
    await db.run(sql.insert, [0, 1])
    const results = await Promise.allSettled(
      Array.from({ length: 60 }, (_, n) => db.run(sql.insert, [n % 3 === 0 ? 0 : n, 1])),
    )
    expect(results.filter(({ status }) => status === 'rejected').length).toBe(20)
  })

  test('a transaction commits or rolls back, and reports a COMMIT that rolled back', async () => {
    await db.tx(tx => tx.run(sql.insert, [1, 1]))
    const boom = new Error('boom')
    const rolledBack = db.tx(async tx => {
      await tx.run(sql.insert, [2, 1])
      throw boom
    })
    expect(await caught(rolledBack)).toBe(boom)
    const swallowed = db.tx(async tx => {
      await tx.run(sql.insert, [3, 1])
      await tx.run(sql.insert, [3, 1]).catch(() => undefined)
    })
    await expect(swallowed).rejects.toThrow(/its error was swallowed/)
    expect(await db.rows(sql.ids)).toEqual([{ id: 1 }])
  })

  test('statements on `db` inside a transaction are not part of it', async () => {
    await caught(
      db.tx(async tx => {
        await tx.run(sql.insert, [1, 1])
        await db.run(sql.insert, [2, 1])
        throw new Error('roll back')
      }),
    )
    expect(await db.rows(sql.ids)).toEqual([{ id: 2 }])
  })

  test('of two transactions that deadlock, one fails with a retryable error', async () => {
    await db.run(sql.insert, [1, 1])
    await db.run(sql.insert, [2, 1])
    const both = Promise.withResolvers<void>()
    let inside = 0
    const cross = (first: number, second: number) =>
      db.tx(async tx => {
        await tx.run(sql.add, [first])
        if (++inside === 2) both.resolve()
        await both.promise
        await tx.run(sql.add, [second])
      })
    const [one, two] = await Promise.all([caught(cross(1, 2)), caught(cross(2, 1))])
    expect([retryable(one), retryable(two)].sort()).toEqual([false, true])
  })

  test('after the connections are killed, pending statements fail as unavailable and the next statement works', async () => {
    const sleeping = caught(db.rows(statement('t.sleep', 'SELECT pg_sleep(10)')))
    const inTx = caught(
      db.tx(async tx => {
        await tx.run(sql.insert, [1, 1])
        await until(async () => (await admin.rows(sql.pid)).length === 1, { what: 'the admin' })
        await admin.rows(sql.kill, ['mote%'])
        await tx.run(sql.insert, [2, 1])
      }),
    )
    const admin = await connectDb({ url: `${database.url}&application_name=admin`, log })
    expect(await sleeping).toBeInstanceOf(DbUnavailable)
    expect(await inTx).toBeInstanceOf(DbUnavailable)
    await until(() => db.rows(sql.ids), { what: 'a new connection' })
    expect(await db.rows(sql.ids)).toEqual([])
    await db.tx(tx => tx.run(sql.insert, [3, 1]))
    await admin.close()
  })

  test('a connection that breaks during COMMIT is reported as an unknown outcome', async () => {
    const commitAndDie: Statement<never> = statement(
      't.defer',
      `
      CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;`,
    )
    await db.run(commitAndDie)
    await db.run(
      statement(
        't.trigger',
        'CREATE CONSTRAINT TRIGGER dies AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die()',
      ),
    )
    const error = await caught(db.tx(tx => tx.run(sql.insert, [1, 1])))
    expect(error).toBeInstanceOf(DbUnavailable)
    expect(error).toMatchObject({ reason: 'commit_unknown' })
  })

  test('connectDb fails at once without a server', async () => {
    const error = await caught(connectDb({ url: 'postgresql://mote@/mote?host=/nonexistent', log }))
    expect(error).toMatchObject({ name: 'DbUnavailable', reason: 'connect' })
  })

  test('a listener receives committed notifications, and is called once after a reconnect', async () => {
    const heard: string[] = []
    const other: string[] = []
    const listening = await db.listen('news', payload => heard.push(payload))
    await db.listen('other', payload => other.push(payload))
    await caught(
      db.tx(async tx => (await tx.rows(sql.notify, ['news', 'rolled back']), Promise.reject(new Error('no')))),
    )
    await db.rows(sql.notify, ['news', 'one'])
    await until(() => heard.length === 1, { what: 'the first event' })
    await db.rows(sql.kill, ['mote-listen'])
    await until(() => heard.length === 2, { what: 'the call after the reconnect' })
    await db.rows(sql.notify, ['news', 'two'])
    await until(() => heard.length === 3, { what: 'an event after the reconnect' })
    expect(heard).toEqual(['one', '', 'two'])
    await listening.stop()
    await db.rows(sql.notify, ['news', 'three'])
    await db.rows(sql.notify, ['other', 'last'])
    await until(() => other.includes('last'), { what: 'the other channel' })
    expect(heard.length).toBe(3)
  })

  test.each(['withLock', 'withLockedSession'] as const)(
    '%s gives a lock to one holder at a time, until the work ends or fails or the session is lost',
    async kind => {
      const inner = await db[kind]('a', async () => {
        expect(await db[kind]('a', async () => 'second')).toBeUndefined()
        return db[kind]('b', async () => 'other name')
      })
      expect(inner).toBe('other name')
      await caught(db[kind]('a', () => Promise.reject(new Error('work failed'))))
      expect(await until(() => db[kind]('a', async () => 'again'), { what: 'the lock' })).toBe('again')
      const reason = await db[kind]('a', async signal => {
        await db.rows(sql.kill, [kind === 'withLock' ? 'mote-locks' : 'mote-lock a'])
        await until(() => signal.aborted, { what: 'the signal' })
        return signal.reason
      })
      expect(reason).toBeInstanceOf(DbUnavailable)
      expect(await until(() => db[kind]('a', async () => 'later'), { what: 'the lock' })).toBe('later')
    },
  )

  test('`withLock` and `withLockedSession` exclude each other, also between two programs', async () => {
    const other = await connectDb({ url: database.url, log })
    await db.withLock('a', async () => {
      expect(await db.withLockedSession('a', async () => 'in a session')).toBeUndefined()
      expect(await other.withLock('a', async () => 'in another program')).toBeUndefined()
      expect(await other.withLock('b', async () => 'another lock')).toBe('another lock')
    })
    await other.withLock('a', async () => expect(await db.withLock('a', async () => 'late')).toBeUndefined())
    await other.close()
    expect(await caught(other.withLock('a', async () => 'closed'))).toMatchObject({ reason: 'closed' })
  })

  test('many locks share one session', async () => {
    const names = Array.from({ length: 20 }, (_, n) => `many ${n}`)
    const own = await connectDb({ url: database.url, log })
    const before = await db.one(sql.sessions, ['mote-locks'])
    const all = Promise.withResolvers<void>()
    let held = 0
    const work = () => {
      if (++held === names.length) all.resolve()
      return all.promise
    }
    await Promise.all(names.map(name => own.withLock(name, work)))
    expect((await db.one(sql.sessions, ['mote-locks'])).count).toBe(before.count + 1)
    await own.close()
  })

  test('a transaction waits for a free connection when the maximum number of connections is in use', async () => {
    const small = await connectDb({ url: database.url, log, txConnections: 2 })
    await Promise.all(Array.from({ length: 10 }, (_, n) => small.tx(tx => tx.run(sql.insert, [n, 1]))))
    expect((await db.rows(sql.ids)).length).toBe(10)
    await small.close()
    await small.close()
    expect(await caught(small.rows(sql.ids))).toMatchObject({ reason: 'closed' })
    expect(await caught(small.tx(tx => tx.rows(sql.ids)))).toMatchObject({ name: 'DbUnavailable' })
  })

  test('a connection that the server closes right after sign-in fails only the transaction that requested it', async () => {
    const socket = join(decodeURIComponent(/\?host=(.+)$/.exec(database.url)?.[1] ?? ''), '.s.PGSQL.5432')
    const fatal = Buffer.from('SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0')
    const length = Buffer.alloc(4)
    length.writeInt32BE(fatal.length + 4)
    // The packet contains AuthenticationOk and ReadyForQuery, then the termination (PostgreSQL, "Message Formats").
    const ended = Buffer.concat([Buffer.from('R\0\0\0\x08\0\0\0\0Z\0\0\0\x05IE', 'latin1'), length, fatal])
    const proxy = createServer(client => {
      client.once('data', first => {
        if (first.includes('mote-tx')) return client.end(ended)
        const server = connect(socket)
        server.write(first)
        client.pipe(server).pipe(client)
      })
    }).listen(0, '127.0.0.1')
    await once(proxy, 'listening')
    using _closing = { [Symbol.dispose]: () => void proxy.close() }
    const { port } = proxy.address() as AddressInfo
    const [, user = '', name = ''] = /\/\/(\w+)@\/(\w+)\?/.exec(database.url) ?? []
    const own = await connectDb({ url: `postgresql://${user}@127.0.0.1:${port}/${name}`, log })
    expect(await caught(own.tx(tx => tx.rows(sql.pid)))).toBeInstanceOf(DbUnavailable)
    expect(await own.rows(sql.pid)).toHaveLength(1)
    await own.close()
  })

  describe('a server that hangs', () => {
    /** Creates a proxy to the server that stops forwarding once a client has sent text that matches `at`. */
    const hanging = async (at: RegExp) => {
      const [, user = '', name = '', host = ''] = /\/\/(\w+)@\/(\w+)\?host=(.+)$/.exec(database.url) ?? []
      const cut = await cutWhen(join(decodeURIComponent(host), '.s.PGSQL.5432'), at, 'hang')
      return Object.assign(cut, { url: `postgresql://${user}@127.0.0.1:${cut.port}/${name}` })
    }

    test('`close` succeeds although the server hangs', async () => {
      await using server = await hanging(/t\.insert/)
      const own = await connectDb({ url: server.url, log, txConnections: 1 })
      await own.rows(sql.pid)
      const waiting = caught(own.tx(tx => tx.run(sql.insert, [100, 1])))
      await until(() => server.happened(), { what: 'the hang' })
      await own.close()
      expect(await waiting).toBeInstanceOf(DbUnavailable)
    })

    // Only partly in `npm test`: the embedded server covers the other one, because a proxy hangs, not the server.
    const testOnce = test.skipIf(which === 'installed' && !runsAll)
    testOnce(
      '`whileAnswering` fails when the server hangs, but not when the work waits for other sessions',
      async () => {
        await using server = await hanging(/t\.ids/)
        const own = await connectDb({ url: server.url, log })
        expect(await own.whileAnswering(() => own.rows(sql.long))).toHaveLength(1)
        expect(await caught(own.whileAnswering(() => own.rows(sql.ids)))).toMatchObject({
          reason: 'connect',
          message: expect.stringContaining('did not answer within 4 s'),
        })
        await own.close()
      },
    )
  })
})

/** Every function that opens a database session, a socket or a file also closes it if it fails or returns early. */
import { globSync, readFileSync } from 'node:fs'
import { mkdtemp, readdir, readlink, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import pg from 'pg'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connectNatsBus } from '../../src/bus/nats.ts'
import { natsAuthorization } from '../../src/bus/permissions.ts'
import { connectDb } from '../../src/db/connect.ts'
import { type Db, statement } from '../../src/db/db.ts'
import { dumpSchema } from '../../src/db/dump.ts'
import { migrate, migrationStatus } from '../../src/db/migrate.ts'
import { createRunner } from '../../src/engine/runner.ts'
import { engineStatements } from '../../src/engine/statements.ts'
import { createSweeper } from '../../src/engine/sweeper.ts'
import { databaseUrl } from '../support/global-setup.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { type NatsServer, natsMissing, startNatsServer } from '../support/nats.ts'
import { until } from '../support/wait.ts'

const log = pino({ level: 'silent' })
const root = join(import.meta.dirname, '..', '..')

let database: TestDatabase
/** Database with one connection of each kind, which the cases share. */
let db: Db
let nats: NatsServer | undefined
let natsWithoutStreams: NatsServer | undefined
let migrations: string
/** Client that counts sessions. It uses another database, so that its own session is not counted. */
let observer: pg.Client

beforeAll(async () => {
  database = await testDatabase()
  db = await connectDb({ url: database.url, log, autocommitConnections: 1, txConnections: 1 })
  observer = new pg.Client({ connectionString: database.url.replace(/\/test_\w+\?/, '/postgres?') })
  await observer.connect()
  migrations = await mkdtemp(join(tmpdir(), 'mote-migrations-'))
  await writeFile(join(migrations, '0001-broken.sql'), 'SELECT nothing FROM nowhere;')
  if (natsMissing !== undefined) return
  nats = await startNatsServer({ config: natsAuthorization([{ role: { kind: 'control' }, password: 'secret' }]) })
  natsWithoutStreams = await startNatsServer({ jetStream: false })
})
afterAll(async () => {
  await observer.end()
  await db.close()
  await database.drop()
  await nats?.stop()
  await natsWithoutStreams?.stop()
  await rm(migrations, { recursive: true, force: true })
})

const nowhere = () => databaseUrl(database.url.replace(/\/test_\w+\?/, '/mote?'), 'no_such_database')
const fails = (work: Promise<unknown>) => expect(work).rejects.toThrow()
const endSessions = statement(
  'released.end',
  `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
   WHERE datname = current_database() AND application_name LIKE $1 AND pid <> pg_backend_pid()`,
)
const ping = statement('released.ping', 'SELECT 1')
const refused = statement('released.refused', 'SELECT 1 / 0')
const natsUrl = (password: string) => (nats?.url ?? '').replace('//', `//control:${password}@`)

/** Runs `work` while another session holds the lock. */
async function whileHeld(name: string, work: () => Promise<void>): Promise<void> {
  await db.withLockedSession(name, work)
}

/** For each source file, the situations in which its functions must close what they have opened. */
const cases: Readonly<Record<string, Readonly<Record<string, () => Promise<void>>>>> = {
  'src/db/lock.ts': Object.fromEntries(
    (['withLock', 'withLockedSession'] as const).flatMap(kind => [
      [
        `${kind}: another session holds the lock`,
        () => whileHeld('taken', async () => expect(await db[kind]('taken', async () => 'ran')).toBeUndefined()),
      ],
      [`${kind}: the work is done`, async () => expect(await db[kind]('free', async () => 'ran')).toBe('ran')],
      [`${kind}: the work throws`, () => fails(db[kind]('free', () => Promise.reject(new Error('no'))))],
      [
        `${kind}: the session ends during the work`,
        async () => {
          await db[kind]('free', async lost => {
            await db.rows(endSessions, [kind === 'withLock' ? 'mote-locks' : 'mote-lock free'])
            await until(() => lost.aborted, { what: 'the loss of the lock' })
          })
        },
      ],
    ]),
  ),
  'src/db/connect.ts': {
    'the database does not exist': () => fails(connectDb({ url: nowhere(), log })),
    'it is closed': async () => {
      const own = await connectDb({ url: database.url, log })
      await Promise.all([
        own.rows(ping),
        own.rows(ping),
        own.tx(tx => tx.rows(ping)),
        own.listen('t', () => {}),
        own.withLock('l', async () => 0),
      ])
      await own.close()
    },
    'a transaction throws': () => fails(db.tx(() => Promise.reject(new Error('no')))),
    'a statement of a transaction is refused': () => fails(db.tx(tx => tx.rows(refused))),
    'the session of a transaction ends': () =>
      fails(
        db.tx(async tx => {
          await tx.rows(ping)
          await db.rows(endSessions, ['mote-tx'])
          await tx.rows(ping)
        }),
      ),
  },
  'src/db/answering.ts': {
    'the work takes long': async () =>
      void (await db.whileAnswering(() => db.rows(statement('released.long', 'SELECT pg_sleep(1.3)')))),
  },
  'src/db/autocommit.ts': {
    'a statement is refused': () => fails(db.rows(refused)),
    'its session ends': async () => {
      await db.tx(tx => tx.rows(endSessions, ['mote']))
      await until(() => db.rows(ping), { what: 'a new session' })
    },
  },
  'src/db/listener.ts': {
    'it is stopped': async () => (await db.listen('t', () => {})).stop(),
    'its session ends': async () => {
      const back = Promise.withResolvers<void>()
      const listening = await db.listen('t', () => back.resolve())
      await db.rows(endSessions, ['mote-listen'])
      await back.promise
      await listening.stop()
    },
    'the program has closed it': async () => {
      const own = await connectDb({ url: database.url, log })
      await own.close()
      await fails(own.listen('t', () => {}))
    },
  },
  'src/db/migrate.ts': {
    'nothing is pending': async () => expect(await migrate({ url: database.url })).toEqual([]),
    'a migration is refused': () => fails(migrate({ url: database.url, directory: pathToFileURL(`${migrations}/`) })),
    'the database does not exist': () => fails(migrate({ url: nowhere() })),
    'its status is read': async () => void (await migrationStatus({ url: database.url })),
  },
  'src/db/dump.ts': {
    'it succeeds': async () => void (await dumpSchema(database.url)),
    'the database does not exist': () => fails(dumpSchema(nowhere())),
  },
  'src/engine/runner.ts': {
    'it is stopped': async () => {
      const runner = createRunner({ db, workflows: [], log })
      await runner.start()
      await runner.stop()
    },
    'its start fails': async () => {
      const statements = { ...engineStatements, releaseDead: statement<{ id: string }>('released.dead', refused.text) }
      await fails(createRunner({ db, workflows: [], log, statements }).start())
    },
  },
  'src/engine/presence.ts': {
    'its session ends': async () => {
      const announced = Promise.withResolvers<void>()
      let times = 0
      const watched: Db = {
        ...db,
        withLockedSession: (name, work) =>
          db.withLockedSession(name, lost => {
            if (++times === 2) announced.resolve()
            return work(lost)
          }),
      }
      const runner = createRunner({ db: watched, workflows: [], log })
      await runner.start()
      await db.rows(endSessions, ['mote-lock runner%'])
      await announced.promise
      await runner.stop()
    },
  },
  'src/engine/sweeper.ts': {
    'it is stopped': async () => {
      const sweeper = createSweeper({ db, sweeps: [sweep('one')], log })
      await sweeper.start()
      await sweeper.stop()
    },
    'its start fails': async () => fails(createSweeper({ db, sweeps: [sweep('a\0b')], log }).start()),
    'another process runs the sweep': () =>
      whileHeld('sweep one', async () => {
        expect(await createSweeper({ db, sweeps: [sweep('one')], log }).runDue('one')).toBe(false)
      }),
  },
  'src/bus/nats.ts': {
    'no server listens': () => fails(connectNatsBus({ servers: '127.0.0.1:1', name: 'test', log })),
    'the password is wrong': () => fails(connectNatsBus({ servers: natsUrl('wrong'), name: 'test', log })),
    'the server has no streams': () =>
      fails(connectNatsBus({ servers: natsWithoutStreams?.url ?? '', name: 'test', log })),
    'it is closed': async () => {
      const bus = await connectNatsBus({ servers: natsUrl('secret'), name: 'test', log })
      await bus.subscribe('log.h.*', () => {}, { from: 0 })
      await bus.serve('control.in.wake', () => 'awake')
      await bus.close()
    },
    'it is closed while the server is down': async () => {
      const bus = await connectNatsBus({ servers: natsUrl('secret'), name: 'test', log })
      await bus.subscribe('log.h.*', () => {}, { from: 0 })
      await bus.serve('control.in.wake', () => 'awake')
      await nats?.restart(async () => {
        await until(() => !bus.connected(), { what: 'the loss of the server' })
        await bus.close()
      })
    },
  },
}

const sweep = (name: string) => ({ name, everyMs: 3_600_000, run: async () => ({}) })

/** Source files that need no cases in this file: they start processes, and src/db/embedded.test.ts tests them. */
const apart = /^src\/db\/embedded/
const opens = /new pg\.(?:Client|Pool)|\.withLock(?:edSession)?\(|\bdb\.listen\(|\bawait (?:connect|open)\(/

it('every source file that opens a session, socket or file has cases', () => {
  const files = ['db', 'bus', 'engine'].flatMap(dir => globSync(`src/${dir}/**/*.ts`, { cwd: root }))
  const openers = files.filter(
    file => !/test(?:ing)?\.ts$/.test(file) && !apart.test(file) && opens.test(readFileSync(join(root, file), 'utf8')),
  )
  expect(Object.keys(cases)).toEqual(expect.arrayContaining(openers))
})

for (const [file, own] of Object.entries(cases))
  describe.skipIf(natsMissing !== undefined && file.includes('nats'))(file, () => {
    it.each(Object.entries(own))('no session, socket or file stays open when %s', async (_what, work) => {
      // Run the case once before counting, because its first run opens connections that remain open.
      await work()
      const before = await settled()
      for (let time = 0; time < 3; time++) await work()
      let after = before
      await until(async () => (after = await openNow()) <= before, {
        what: 'sessions and sockets to be closed',
      }).catch(() => undefined)
      expect(after, 'sessions and sockets').toBeLessThanOrEqual(before)
    })
  })

/** Waits until the number of open sessions and sockets no longer changes, and returns it. */
async function settled(): Promise<number> {
  let [last, same] = [await openNow(), 0]
  await until(
    async () => {
      const now = await openNow()
      same = now === last ? same + 1 : 0
      last = now
      return same >= 5
    },
    { what: 'a steady number of sessions', everyMs: 20 },
  )
  return last
}

/** Returns the number of database sessions plus that of this process's sockets and temporary files. */
async function openNow(): Promise<number> {
  const { rows } = await observer.query<{ sessions: number }>(
    'SELECT count(*)::int AS sessions FROM pg_stat_activity WHERE datname = $1',
    [/\/(test_\w+)\?/.exec(database.url)?.[1]],
  )
  const links = await Promise.all(
    (await readdir('/proc/self/fd')).map(fd => readlink(`/proc/self/fd/${fd}`).catch(() => '')),
  )
  return (rows[0]?.sessions ?? 0) + links.filter(link => link.startsWith('socket:') || link.startsWith(tmpdir())).length
}

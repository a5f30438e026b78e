/**
 * A database that many lives reuse one after the other: creating one for each would cost more than most lives. Its clock
 * is virtual: it advances by 1 ms with each event of a life, so that a life on a slow or paused machine is the same one.
 */
import pg from 'pg'
import { connectDb } from '../../src/db/connect.ts'
import { type Db, statement } from '../../src/db/db.ts'
import { testDatabase } from '../support/database.ts'
import { testLog } from '../support/log.ts'
import { watched } from './watched.ts'

export interface Stage extends AsyncDisposable {
  readonly db: Db
  /** True if an invariant could be affected by writes since the last call. */
  changed(): boolean
  /** Deletes all rows and sets the clock of the database to this machine's. */
  clear(): Promise<void>
  /** Advances the clock of the database by 1 ms. */
  tick(): Promise<void>
}

const written = [
  ...[
    'event',
    'notification',
    'route',
    'machine_poke',
    'machine',
    'alert',
    'migration',
    'vm_snapshot_move',
    'vm_snapshot',
    'vm_disk',
    'stray',
    'run',
    'job',
    'volume_attachment',
    'volume_snapshot',
    'volume_move',
    'volume',
  ],
  ...['vm', 'deployment_env', 'deployment', 'app_env', 'app', 'host', 'project_member', 'project', 'account'],
]
/** One statement, because references are checked at its end. TRUNCATE takes 0.7 s here, this a few milliseconds. */
const clear = statement(
  'simulation.clear',
  `WITH ${written.map(table => `d_${table} AS (DELETE FROM ${table})`).join(', ')} SELECT 1`,
)

/** Dead rows of earlier lives slow down every read: a step of the tenth life took twice as long as one of the first. */
const vacuum = statement('simulation.vacuum', `VACUUM ${written.join(', ')}`)
/** Each VACUUM invalidates all plans, which costs as much as the dead rows of three lives. */
const livesBetweenVacuums = 3

/**
 * A sequence is the clock, in milliseconds: all connections see its value at once. Statements call now() without a schema,
 * so a schema before pg_catalog in the search path replaces it. Defaults of columns were resolved by the migrations.
 */
const virtualTime = `
CREATE SCHEMA simulation;
CREATE SEQUENCE simulation.clock;
CREATE FUNCTION simulation.now() RETURNS timestamptz STABLE
  RETURN to_timestamp(pg_sequence_last_value('simulation.clock'::regclass) / 1000.0);
CREATE FUNCTION simulation.clock_timestamp() RETURNS timestamptz STABLE RETURN simulation.now();
DO $$
DECLARE c record;
BEGIN
  FOR c IN SELECT table_name, column_name,
      regexp_replace(column_default, '\\m(now|clock_timestamp)\\(\\)', 'simulation.now()') AS otherwise
    FROM information_schema.columns
    WHERE table_schema = 'public' AND column_default ~ '\\m(now|clock_timestamp)\\(\\)'
  LOOP
    EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET DEFAULT %s', c.table_name, c.column_name, c.otherwise);
  END LOOP;
  EXECUTE format('ALTER DATABASE %I SET search_path = simulation, pg_catalog, public', current_database());
END $$`
const setClock = statement('simulation.setClock', `SELECT setval('simulation.clock', $1)`)
const tick = statement('simulation.tick', `SELECT nextval('simulation.clock')`)

/** For a database that `stageOf` uses; affects later connections. */
export async function useVirtualTime(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(virtualTime)
  } finally {
    await client.end()
  }
}

/** @param db with one connection of each kind: statements run in order, so that a seed replays */
export function stageOf(db: Db): Omit<Stage, typeof Symbol.asyncDispose> {
  let lives = 0
  return {
    ...watched(db),
    async clear() {
      await db.rows(clear)
      await db.rows(setClock, [Date.now()])
      lives += 1
      if (lives % livesBetweenVacuums === 0) await db.rows(vacuum)
    },
    tick: async () => void (await db.rows(tick)),
  }
}

export async function simulationStage(): Promise<Stage> {
  const database = await testDatabase()
  await useVirtualTime(database.url)
  // One connection each: every statement is planned once, and statements run in order, so that a seed replays.
  const db = await connectDb({ url: database.url, log: testLog(), autocommitConnections: 1, txConnections: 1 })
  return {
    ...stageOf(db),
    async [Symbol.asyncDispose]() {
      await db.close()
      await database.drop()
    },
  }
}

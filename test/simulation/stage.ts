/**
 * A database that many simulated runs ("lives") use one after the other, because creating one takes longer than most
 * runs. Its clock is virtual: it advances by 1 ms with each event, so that a slow or paused machine makes no
 * difference.
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
  /** Deletes all rows, and sets the virtual clock to this machine's time. */
  clear(): Promise<void>
  /** Advances the virtual clock by 1 ms. */
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
/**
 * Deletes all rows. One statement for all tables, because foreign keys are checked at its end. TRUNCATE would take 0.7
 * s; this takes a few milliseconds.
 */
const clear = statement(
  'simulation.clear',
  `WITH ${written.map(table => `d_${table} AS (DELETE FROM ${table})`).join(', ')} SELECT 1`,
)

/**
 * Removes dead rows of earlier runs, which slow down every read: steps of the tenth run took twice as long as the
 * first.
 */
const vacuum = statement('simulation.vacuum', `VACUUM ${written.join(', ')}`)
/**
 * Number of runs between two VACUUMs. Each invalidates all plans, which costs as much as the dead rows of three runs.
 */
const livesBetweenVacuums = 3

/**
 * Replaces now() and clock_timestamp() with functions that read a sequence, in milliseconds, which all connections see
 * at once. They are in a schema that precedes pg_catalog in the search path. Column defaults refer to pg_catalog, so
 * they are altered.
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

/** Installs the virtual clock in a database, for connections that are opened later. */
export async function useVirtualTime(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(virtualTime)
  } finally {
    await client.end()
  }
}

/** @param db a database with one connection of each kind, so that statements run in order and a seed repeats a run */
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
  // One connection of each kind: statements are planned once, and run in order, so that the same seed repeats a run.
  const db = await connectDb({ url: database.url, log: testLog(), autocommitConnections: 1, txConnections: 1 })
  return {
    ...stageOf(db),
    async [Symbol.asyncDispose]() {
      await db.close()
      await database.drop()
    },
  }
}

/** A database that many lives reuse one after the other: creating one for each would cost more than most lives. */
import { connectDb } from '../../src/db/connect.ts'
import { type Db, statement } from '../../src/db/db.ts'
import { testDatabase } from '../support/database.ts'
import { testLog } from '../support/log.ts'
import { watched } from './watched.ts'

export interface Stage extends AsyncDisposable {
  readonly db: Db
  /** True if an invariant could be affected by writes since the last call. */
  changed(): boolean
  /** Deletes all rows. */
  clear(): Promise<void>
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

/** @param db with one connection of each kind: statements run in order, so that a seed replays */
export function stageOf(db: Db): Omit<Stage, typeof Symbol.asyncDispose> {
  let lives = 0
  return {
    ...watched(db),
    async clear() {
      await db.rows(clear)
      lives += 1
      if (lives % livesBetweenVacuums === 0) await db.rows(vacuum)
    },
  }
}

export async function simulationStage(): Promise<Stage> {
  const database = await testDatabase()
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

/** A database that many lives use one after the other: making one for each would cost more than most lives. */
import { connectDb } from '../../src/db/connect.ts'
import { type Db, statement } from '../../src/db/db.ts'
import { testDatabase } from '../support/database.ts'
import { testLog } from '../support/log.ts'
import { watched } from './watched.ts'

export interface Stage extends AsyncDisposable {
  readonly db: Db
  /** True when something that an invariant could see was written since the last question. */
  changed(): boolean
  /** Empties it. */
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
    'volume_attachment',
    'volume_snapshot',
    'volume_move',
    'volume',
  ],
  ...['vm', 'deployment_env', 'deployment', 'app_env', 'app', 'host', 'project_member', 'project', 'account'],
]
/** In one statement: references are checked at its end. TRUNCATE takes 0.7 s here, this a few milliseconds. */
const clear = statement(
  'simulation.clear',
  `WITH ${written.map(table => `d_${table} AS (DELETE FROM ${table})`).join(', ')} SELECT 1`,
)

/** Every look reads what earlier lives left dead: a step of the tenth life took twice as long as one of the first. */
const vacuum = statement('simulation.vacuum', `VACUUM ${written.join(', ')}`)
/** Each has all statements planned anew, which costs as much as what three lives leave behind. */
const livesBetweenVacuums = 3

/** @param db with one connection of each kind: nothing overtakes anything, so that a seed replays */
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
  // One of each: every statement is planned once, and nothing overtakes anything, so that a seed replays.
  const db = await connectDb({ url: database.url, log: testLog(), autocommitConnections: 1, txConnections: 1 })
  return {
    ...stageOf(db),
    async [Symbol.asyncDispose]() {
      await db.close()
      await database.drop()
    },
  }
}

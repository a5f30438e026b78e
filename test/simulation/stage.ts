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

/** @param db with one connection of each kind: nothing overtakes anything, so that a seed replays */
export const stageOf = (db: Db): Omit<Stage, typeof Symbol.asyncDispose> => ({
  ...watched(db),
  clear: async () => void (await db.rows(clear)),
})

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

import type { Tx } from '../../db/db.ts'
import type { Database } from './store.ts'
import * as store from './store.ts'
import { databaseView } from './view.ts'

/** Renders the database with its current branch. */
export async function viewOf(sql: Parameters<typeof store.current>[0], database: Database) {
  return databaseView(database, (await store.current(sql, [database.id])).get(database.id))
}

export async function found(tx: Tx, projectId: string, id: string): Promise<Database> {
  const database = await store.inProject(tx, projectId, id)
  if (!database) throw new Error('BUG: a database that was just written does not exist')
  return database
}

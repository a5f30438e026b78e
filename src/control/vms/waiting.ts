import type { Sql } from '../../db/db.ts'
import { pokeMany } from '../../engine/runner.ts'
import * as store from './store.ts'

/** There may be room now: those who wait longest look again. The rest follow as these are placed or by their timer. */
export async function pokeWaiting(sql: Sql): Promise<void> {
  const ids = await store.waiting(sql, 100)
  if (ids.length > 0) await pokeMany(sql, 'vm', ids)
}

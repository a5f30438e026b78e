import type { Sql } from '../../db/db.ts'
import { pokeMany } from '../../engine/runner.ts'
import * as placement from './placement-store.ts'

/**
 * Pokes the 100 VMs that have waited longest for a host, because capacity may be free now. The other waiting VMs are
 * poked when these are placed, or retry by their own timers.
 */
export async function pokeWaiting(sql: Sql): Promise<void> {
  const ids = await placement.waiting(sql, 100)
  if (ids.length > 0) await pokeMany(sql, 'vm', ids)
}

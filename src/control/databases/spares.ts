/**
 * Spare branches. After a snapshot was taken, a branch of it is likely to be requested, so one is created in advance:
 * hidden from users, it starts, accepts connections, and is paused. A request for a branch of the snapshot takes over
 * the spare, and the next spare is created (docs/decisions/0053-spare-branches.md).
 */
import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import type { Sweep } from '../../engine/sweep.ts'
import { seconds } from '../../lib/duration.ts'
import { ApiError } from '../http/errors.ts'
import { createBranch } from './create.ts'
import type { DatabaseDeps } from './deps.ts'
import { sparesSweep } from './spare-claim.ts'
import * as spares from './spare-store.ts'

/** Maximum share of a host's memory in use, including the spare, at which a spare is created. Spares are optional. */
const fullestToMake = 0.75
/** Share of a host's memory in use above which its spares are removed, which makes room for VMs that users request. */
const fullestToKeep = 0.9

export const databaseSpares = (deps: DatabaseDeps): Sweep => ({
  name: sparesSweep,
  everyMs: seconds(5),
  async run() {
    const { spareMinutes } = deps.config.databases
    const needless = await spares.needless(deps.db, spareMinutes, fullestToKeep)
    for (const id of needless) await deps.db.tx(tx => drop(tx, id))
    const missing = spareMinutes > 0 ? await spares.missing(deps.db, spareMinutes, fullestToMake) : []
    let made = 0
    for (const desired of missing) if (await make(deps, desired)) made++
    return { needless: needless.length, made }
  },
})

async function make(deps: DatabaseDeps, { snapshotId, ...of }: spares.SpareTarget): Promise<boolean> {
  try {
    await deps.db.tx(tx => createBranch(deps, tx, { ...of, name: 'spare', kind: 'spare', fromSnapshotId: snapshotId }))
    return true
  } catch (cause) {
    // The project's plan has no room for another branch. So users cannot create one, and no spare is needed.
    if (!(cause instanceof ApiError)) throw cause
    deps.log.debug({ err: cause, databaseId: of.databaseId }, 'could not create a spare branch in this round')
    return false
  }
}

/** Removes the spares of a database whose size or settings change. @returns the ids of the removed spares */
export async function dropSpares(tx: Tx, databaseId: string): Promise<string[]> {
  const ids = await spares.idsOf(tx, databaseId)
  for (const id of ids) await drop(tx, id)
  return ids
}

/** Removes a spare unless a user has claimed it in the meantime. */
async function drop(tx: Tx, id: string): Promise<void> {
  if (await spares.drop(tx, id)) await poke(tx, 'database', id)
}

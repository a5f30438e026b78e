/** A volume that no VM has, with all that has to move with it: what the guest of one snapshot of a VM goes on with stays together. */
import type { Sql } from '../../db/db.ts'
import { type RetainedSnapshot, keptBehind, retainedWithVolumes } from '../moves/index.ts'

export interface MoveGroup {
  /** Ids of the volumes, the one that was asked about among them, in the order of all who lock several. */
  readonly volumeIds: readonly string[]
  readonly snapshots: readonly RetainedSnapshot[]
  /** Why not all of it can leave, whatever the other host is. `passes`: only for now. */
  readonly behind: { readonly why: string; readonly passes: boolean } | undefined
}

/** Follows snapshots to the volumes that their guests go on with, and these to other snapshots. What a VM has is not followed. */
export async function moveGroupOf(sql: Sql, volumeId: string): Promise<MoveGroup> {
  const ids = new Set([volumeId])
  for (;;) {
    const snapshots = await retainedWithVolumes(sql, [...ids])
    const more = snapshots.flatMap(({ volumes }) => volumes.filter(one => !one.held && !ids.has(one.volumeId)))
    if (more.length === 0) return { volumeIds: [...ids].toSorted(), snapshots, behind: keptBehind(snapshots, ids) }
    for (const one of more) ids.add(one.volumeId)
  }
}

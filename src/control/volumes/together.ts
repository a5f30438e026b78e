/** A volume that no VM has, with all that has to move with it: what the guest of one snapshot of a VM goes on with stays together. */
import type { Sql } from '../../db/db.ts'
import { type KeptSnapshot, keptBehind, keptWithVolumes } from '../moves/index.ts'

export interface Together {
  /** Ids of the volumes, the one that was asked about among them, in the order of all who lock several. */
  readonly volumeIds: readonly string[]
  readonly snapshots: readonly KeptSnapshot[]
  /** Why not all of it can leave, whatever the other host is. `passes`: only for now. */
  readonly behind: { readonly why: string; readonly passes: boolean } | undefined
}

/** Follows snapshots to the volumes that their guests go on with, and these to other snapshots. What a VM has is not followed. */
export async function togetherWith(sql: Sql, volumeId: string): Promise<Together> {
  const ids = new Set([volumeId])
  for (;;) {
    const snapshots = await keptWithVolumes(sql, [...ids])
    const more = snapshots.flatMap(({ volumes }) => volumes.filter(one => !one.held && !ids.has(one.volumeId)))
    if (more.length === 0) return { volumeIds: [...ids].toSorted(), snapshots, behind: keptBehind(snapshots, ids) }
    for (const one of more) ids.add(one.volumeId)
  }
}

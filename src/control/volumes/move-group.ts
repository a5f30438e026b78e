/**
 * A move group: a detached volume and everything that must move with it. All volumes that the guest of one snapshot
 * needs stay together.
 */
import type { Sql } from '../../db/db.ts'
import { type RetainedSnapshot, keptBehind, retainedWithVolumes } from '../moves/index.ts'

export interface MoveGroup {
  /** Ids of the volumes, including the requested one, in lock order. */
  readonly volumeIds: readonly string[]
  readonly snapshots: readonly RetainedSnapshot[]
  /** Why the group cannot leave its host at all. `passes`: the obstacle is temporary. */
  readonly behind: { readonly why: string; readonly passes: boolean } | undefined
}

/**
 * Collects the move group of a volume: follows VM snapshots to the volumes that their guests need, and these volumes to
 * further snapshots. Attached volumes are not followed.
 */
export async function moveGroupOf(sql: Sql, volumeId: string): Promise<MoveGroup> {
  const ids = new Set([volumeId])
  for (;;) {
    const snapshots = await retainedWithVolumes(sql, [...ids])
    const more = snapshots.flatMap(({ volumes }) => volumes.filter(one => !one.held && !ids.has(one.volumeId)))
    if (more.length === 0) return { volumeIds: [...ids].toSorted(), snapshots, behind: keptBehind(snapshots, ids) }
    for (const one of more) ids.add(one.volumeId)
  }
}

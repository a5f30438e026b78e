/**
 * A move group is a detached volume and everything that must move with it, because a VM snapshot and all volumes that
 * its guest needs must be on the same host.
 */
import type { Sql } from '../../db/db.ts'
import { type RetainedSnapshot, keptBehind, retainedWithVolumes } from '../moves/index.ts'

export interface MoveGroup {
  /** Ids of the volumes, including the requested one, in lock order. */
  readonly volumeIds: readonly string[]
  readonly snapshots: readonly RetainedSnapshot[]
  /** Reason why the group cannot leave its host now; undefined if it can. `passes`: the reason is temporary. */
  readonly behind: { readonly why: string; readonly passes: boolean } | undefined
}

/**
 * Collects the move group of a volume: follows VM snapshots to the volumes that their guests need, and these volumes
 * to further snapshots. Volumes that a VM has attached are not part of the group.
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

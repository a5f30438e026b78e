import { type Tx, statement } from '../../db/db.ts'

const requestRestore = statement(
  'databases.requestRestore',
  `UPDATE branch SET restore_snapshot_id = $2, restore_moment = $3, restores = restores + 1, updated_at = now()
   WHERE id = $1 AND restores = restored AND want = 'live'`,
)
const nextTimelineOf = statement(
  'databases.nextTimeline',
  `UPDATE branch SET previous_timeline_id = timeline_id, timeline_id = $2 WHERE id = $1`,
)
const finishRestore = statement(
  'databases.finishRestore',
  `UPDATE branch SET restored = restores, restored_at = now(), updated_at = now() WHERE id = $1`,
)

/** The target of a restore: a snapshot, or an instant in PostgreSQL's format. */
export type RestoreTo = { readonly snapshotId: string } | { readonly moment: string }

/** Records the request for a restore. Returns false while an earlier restore is in progress. */
export const startRestore = async (tx: Tx, id: string, to: RestoreTo) =>
  (await tx.run(requestRestore, [id, 'snapshotId' in to ? to.snapshotId : null, 'moment' in to ? to.moment : null])) ===
  1
export const nextTimeline = (tx: Tx, id: string, timelineId: string) => tx.run(nextTimelineOf, [id, timelineId])
export const endRestore = (tx: Tx, id: string) => tx.run(finishRestore, [id])

import { type Db, type Tx, statement } from '../../db/db.ts'

export interface SpareTarget {
  readonly databaseId: string
  readonly projectId: string
  readonly snapshotId: string
  /** The branch of which the snapshot was taken. */
  readonly parentId: string
}

// The spares that should exist: one for the newest snapshot of each database, if the snapshot was taken or branched
// from within the last `$1` minutes, and if the host that stores it accepts VMs.
const desiredStates = `SELECT s.database_id, s.project_id, s.id AS snapshot_id, s.branch_id AS parent_id, d.revision, d.password_revision, d.disk_mib, d.memory_mib,
     h.memory_mib AS host_mib, h.used_memory_mib AS host_used_mib
   FROM (SELECT id FROM database_snapshot WHERE kind = 'user' AND created_at > now() - make_interval(mins => $1)
         UNION SELECT from_snapshot_id FROM branch WHERE kind = 'user' AND from_snapshot_id IS NOT NULL
           AND created_at > now() - make_interval(mins => $1)) recent
   JOIN database_snapshot s ON s.id = recent.id AND s.kind = 'user' AND s.want = 'present' AND s.state = 'ready'
   JOIN database d ON d.id = s.database_id AND d.want = 'running' AND d.backend = 'volume'
   JOIN volume_snapshot c ON c.id = s.volume_snapshot_id JOIN volume v ON v.id = c.volume_id
   JOIN host h ON h.id = v.host_id AND NOT h.cordoned AND h.lost_at IS NULL
   WHERE NOT EXISTS (SELECT FROM database_snapshot newer WHERE newer.database_id = s.database_id AND newer.id > s.id
                     AND newer.kind = 'user' AND newer.want = 'present' AND newer.state = 'ready')`
const missingSpares = statement<SpareTarget>(
  'databases.missingSpares',
  `SELECT w.database_id AS "databaseId", w.project_id AS "projectId", w.snapshot_id AS "snapshotId", w.parent_id AS "parentId"
   FROM (${desiredStates}) w
   WHERE w.host_used_mib + w.memory_mib <= w.host_mib * $2::float8
     AND NOT EXISTS (SELECT FROM branch b WHERE b.database_id = w.database_id AND b.kind = 'spare' AND b.want = 'live')
   LIMIT 10`,
)
const needlessSpares = statement<{ id: string }>(
  'databases.needlessSpares',
  `SELECT b.id FROM branch b LEFT JOIN volume v ON v.id = b.data_volume_id
   WHERE b.kind = 'spare' AND b.want = 'live' AND NOT EXISTS (
     SELECT FROM (${desiredStates}) w WHERE w.snapshot_id = b.from_snapshot_id AND w.revision = b.revision AND w.password_revision <= b.password_revision
       AND w.disk_mib = v.size_mib AND w.host_used_mib <= w.host_mib * $2::float8)`,
)
// The spare is not deleted if a user has claimed it since the sweep found it unneeded.
const dropSpare = statement(
  'databases.dropSpare',
  `UPDATE branch SET want = 'deleted', updated_at = now() WHERE id = $1 AND kind = 'spare' AND want = 'live'`,
)
const sparesOfDatabase = statement<{ id: string }>(
  'databases.spares',
  `SELECT id FROM branch WHERE database_id = $1 AND kind = 'spare' AND want = 'live'`,
)
// A failed spare is not claimed: the next branch is created from scratch, and reports its own failure. A paused spare
// cannot receive a new password, so it is claimed only if it has the current one.
const claimSpare = statement<{ id: string }>(
  'databases.claimSpare',
  `UPDATE branch b SET kind = 'user', name = $3, answers = false, ready_at = NULL, created_at = now(), updated_at = now()
   FROM database d, machine m
   WHERE b.database_id = $1 AND b.from_snapshot_id = $2 AND b.kind = 'spare' AND b.want = 'live'
     AND d.id = b.database_id AND d.revision = b.revision AND b.password_revision >= d.password_revision
     AND NOT EXISTS (SELECT FROM deployment o WHERE o.app_id = b.app_id AND o.outcome = 'failed')
     AND m.kind = 'database' AND m.id = b.id AND m.phase IN ('starting', 'running', 'standing')
   RETURNING b.id`,
)
// Waits until a placement of the branch's VM that is in progress has committed. Later placements find that the branch
// belongs to a user.
const holdPlacing = statement(
  'databases.holdPlacing',
  `SELECT id FROM deployment WHERE app_id = $1 ORDER BY id FOR NO KEY UPDATE`,
)
const beginUsage = statement(
  'databases.beginUsage',
  `INSERT INTO usage_span (vm_id, project_id, vcpus, memory_mib)
   SELECT id, project_id, vcpus, memory_mib FROM vm WHERE app_id = $1 AND host_id IS NOT NULL AND want <> 'absent'
   ON CONFLICT DO NOTHING`,
)

/**
 * Returns the spares that must be created.
 * @param fullest maximum share of the host's memory in use, including the spare
 */
export const missing = (db: Db, minutes: number, fullest: number) => db.rows(missingSpares, [minutes, fullest])
/**
 * Returns the ids of spares that are not needed, for example because their snapshot is outdated or the memory of their
 * host is fuller than `fullest`.
 */
export const needless = async (db: Db, minutes: number, fullest: number) =>
  (await db.rows(needlessSpares, [minutes, fullest])).map(row => row.id)
export const idsOf = async (tx: Tx, databaseId: string) =>
  (await tx.rows(sparesOfDatabase, [databaseId])).map(row => row.id)
/** Marks a spare for deletion. Returns false when it no longer exists or was claimed. */
export const drop = async (tx: Tx, id: string) => (await tx.run(dropSpare, [id])) === 1
/**
 * Gives the spare branch of the snapshot to the user under this name. Returns its id; undefined when the snapshot has
 * no spare.
 */
export const claim = async (
  tx: Tx,
  { databaseId, snapshotId, name }: { readonly databaseId: string; readonly snapshotId: string; readonly name: string },
) => (await tx.maybe(claimSpare, [databaseId, snapshotId, name]))?.id
/** Starts to count the usage of a claimed branch for billing. */
export const startCounting = async (tx: Tx, appId: string) => {
  await tx.rows(holdPlacing, [appId])
  await tx.run(beginUsage, [appId])
}

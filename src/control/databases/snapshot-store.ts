import { type Sql, type Tx, statement } from '../../db/db.ts'

export interface DatabaseSnapshot {
  readonly id: string
  readonly databaseId: string
  readonly branchId: string
  readonly projectId: string
  readonly name: string
  readonly kind: 'user' | 'restore'
  readonly want: 'present' | 'absent'
  readonly state: 'creating' | 'ready' | 'failed'
  readonly volumeSnapshotId: string | null
  readonly lsn: string | null
  readonly sizeBytes: number
  readonly error: string | null
  readonly createdAt: Date
}

const columns = `id, database_id AS "databaseId", branch_id AS "branchId", project_id AS "projectId", name, kind, want, state,
  volume_snapshot_id AS "volumeSnapshotId", lsn, size_bytes AS "sizeBytes", error, created_at AS "createdAt"`

const snapshotById = statement<DatabaseSnapshot>(
  'databases.snapshot',
  `SELECT ${columns} FROM database_snapshot WHERE id = $1`,
)
const snapshotsOf = statement<DatabaseSnapshot>(
  'databases.snapshots',
  `SELECT ${columns} FROM database_snapshot WHERE database_id = $1 AND want = 'present' ORDER BY id DESC`,
)
const lockByName = statement<DatabaseSnapshot>(
  'databases.lockSnapshot',
  `SELECT ${columns} FROM database_snapshot WHERE database_id = $1 AND name = $2 AND want = 'present' FOR UPDATE`,
)
const insertSnapshot = statement(
  'databases.insertSnapshot',
  `INSERT INTO database_snapshot (id, database_id, branch_id, project_id, name, kind) VALUES ($1, $2, $3, $4, $5, $6)`,
)
const setVolumeSnapshot = statement(
  'databases.setVolumeSnapshot',
  `UPDATE database_snapshot SET volume_snapshot_id = $2 WHERE id = $1 AND volume_snapshot_id IS NULL`,
)
const finishSnapshot = statement(
  'databases.finishSnapshot',
  `UPDATE database_snapshot SET state = $2, size_bytes = $3, lsn = $4, error = $5 WHERE id = $1 AND state = 'creating'`,
)
const markDeleted = statement(
  'databases.markSnapshotDeleted',
  `UPDATE database_snapshot SET want = 'absent' WHERE id = $1 AND want = 'present'`,
)
const deleteSnapshot = statement('databases.deleteSnapshot', `DELETE FROM database_snapshot WHERE id = $1`)
const deleteOfBranch = statement(
  'databases.deleteSnapshotsOfBranch',
  `DELETE FROM database_snapshot WHERE branch_id = $1`,
)
const usersOfSnapshot = statement<{ count: number }>(
  'databases.usersOfSnapshot',
  `SELECT count(*)::int AS count FROM branch WHERE restore_snapshot_id = $1 AND restores > restored`,
)

export const byId = (sql: Sql, id: string) => sql.maybe(snapshotById, [id])
/** Returns the snapshots of a database, newest first. */
export const list = (sql: Sql, databaseId: string) => sql.rows(snapshotsOf, [databaseId])
export const lock = (tx: Tx, databaseId: string, name: string) => tx.maybe(lockByName, [databaseId, name])
export const insert = (
  tx: Tx,
  s: Pick<DatabaseSnapshot, 'id' | 'databaseId' | 'branchId' | 'projectId' | 'name' | 'kind'>,
) => tx.run(insertSnapshot, [s.id, s.databaseId, s.branchId, s.projectId, s.name, s.kind])
export const hasVolumeSnapshot = (tx: Tx, id: string, volumeSnapshotId: string) =>
  tx.run(setVolumeSnapshot, [id, volumeSnapshotId])
export const finish = (
  tx: Tx,
  id: string,
  end: {
    readonly state: 'ready' | 'failed'
    readonly sizeBytes: number
    readonly lsn: string | null
    readonly error: string | null
  },
) => tx.run(finishSnapshot, [id, end.state, end.sizeBytes, end.lsn, end.error])
export const markForDeletion = async (tx: Tx, id: string) => (await tx.run(markDeleted, [id])) === 1
export const remove = (tx: Tx, id: string) => tx.run(deleteSnapshot, [id])
export const removeOf = (tx: Tx, branchId: string) => tx.run(deleteOfBranch, [branchId])
/** Returns the number of restores from the snapshot that are in progress. */
export const restoresFrom = async (tx: Tx, id: string) => (await tx.one(usersOfSnapshot, [id])).count

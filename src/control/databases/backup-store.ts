import { type Db, type Sql, type Tx, statement } from '../../db/db.ts'

export interface BackupState {
  readonly branchId: string
  readonly newestAt: Date | null
  readonly backups: number
  readonly sizeBytes: number
  readonly startedAt: Date | null
  readonly error: string | null
  readonly drillBranchId: string | null
  readonly drillStartedAt: Date | null
  readonly drilledAt: Date | null
  readonly drillPassed: boolean | null
  readonly drillError: string | null
}

const columns = `branch_id AS "branchId", newest_at AS "newestAt", backups, size_bytes AS "sizeBytes",
  started_at AS "startedAt", error, drill_branch_id AS "drillBranchId", drill_started_at AS "drillStartedAt",
  drilled_at AS "drilledAt", drill_passed AS "drillPassed", drill_error AS "drillError"`

const stateOfBranch = statement<BackupState>(
  'databases.backup',
  `SELECT ${columns} FROM branch_backup WHERE branch_id = $1`,
)
// Selects branches that accept connections and back up to their own volumes. Those whose backups were checked longest
// ago come first.
const dueBranches = statement<{ id: string }>(
  'databases.backupsDue',
  `SELECT b.id FROM branch b JOIN database d ON d.id = b.database_id LEFT JOIN branch_backup k ON k.branch_id = b.id
   WHERE b.kind = 'user' AND b.want = 'live' AND b.answers AND b.backup_volume_id IS NOT NULL AND d.want = 'running'
     AND (k.looked_at IS NULL OR k.looked_at < now() - make_interval(secs => $1)
          OR k.started_at IS NOT NULL OR k.newest_at IS NULL OR k.newest_at < b.restored_at)
   ORDER BY k.looked_at NULLS FIRST LIMIT $2`,
)
const recordLook = statement(
  'databases.recordBackup',
  `INSERT INTO branch_backup AS k (branch_id, newest_at, backups, size_bytes, started_at, error, looked_at)
   VALUES ($1, $2, $3, $4, $5, $6, now())
   ON CONFLICT (branch_id) DO UPDATE SET newest_at = excluded.newest_at, backups = excluded.backups,
     size_bytes = excluded.size_bytes, started_at = excluded.started_at, error = excluded.error, looked_at = now()`,
)
const drillsUnderWay = statement<BackupState>(
  'databases.drillsUnderWay',
  `SELECT ${columns} FROM branch_backup WHERE drill_branch_id IS NOT NULL`,
)
// Starts one restore drill at a time, because each needs an additional VM.
const nextDrill = statement<{ branchId: string }>(
  'databases.nextDrill',
  `SELECT k.branch_id AS "branchId" FROM branch_backup k
   JOIN branch b ON b.id = k.branch_id JOIN database d ON d.id = b.database_id
   WHERE k.newest_at IS NOT NULL AND b.is_current AND b.answers AND d.want = 'running' AND k.drill_branch_id IS NULL
     AND (k.drilled_at IS NULL OR k.drilled_at < now() - make_interval(hours => $1))
     AND NOT EXISTS (SELECT FROM branch_backup other WHERE other.drill_branch_id IS NOT NULL)
   ORDER BY k.drilled_at NULLS FIRST LIMIT 1`,
)
const beginDrill = statement(
  'databases.beginDrill',
  `UPDATE branch_backup SET drill_branch_id = $2, drill_started_at = now() WHERE branch_id = $1 AND drill_branch_id IS NULL`,
)
const finishDrill = statement(
  'databases.endDrill',
  `UPDATE branch_backup SET drill_branch_id = NULL, drilled_at = now(), drill_passed = $3, drill_error = $4
   WHERE branch_id = $1 AND drill_branch_id = $2`,
)

export const ofBranch = (sql: Sql, branchId: string) => sql.maybe(stateOfBranch, [branchId])
/** Returns the ids of branches whose backups were not checked for `everySeconds`, or that wait for a backup. */
export const due = async (db: Db, everySeconds: number, limit: number) =>
  (await db.rows(dueBranches, [everySeconds, limit])).map(row => row.id)
export const record = (
  sql: Sql,
  branchId: string,
  observed: Pick<BackupState, 'newestAt' | 'backups' | 'sizeBytes' | 'startedAt' | 'error'>,
) =>
  sql.run(recordLook, [
    branchId,
    observed.newestAt,
    observed.backups,
    observed.sizeBytes,
    observed.startedAt,
    observed.error,
  ])
export const drills = (db: Db) => db.rows(drillsUnderWay)
export const nextToDrill = async (db: Db, everyHours: number) => (await db.maybe(nextDrill, [everyHours]))?.branchId
/** Records the start of a restore drill. Returns false when another drill has started in the meantime. */
export const startDrill = async (tx: Tx, branchId: string, drillBranchId: string) =>
  (await tx.run(beginDrill, [branchId, drillBranchId])) === 1
export const endDrill = (tx: Tx, branchId: string, drillBranchId: string, error: string | null) =>
  tx.run(finishDrill, [branchId, drillBranchId, error === null, error])

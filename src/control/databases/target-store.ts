import { type Tx, statement } from '../../db/db.ts'

const setTarget = statement(
  'databases.setBackupTarget',
  `UPDATE database SET backup_target = $2, revision = revision + 1, updated_at = now() WHERE id = $1`,
)
// Backups at the old target do not exist at the new one, so the state of the backups is unknown until the next check.
const forgetBackups = statement(
  'databases.forgetBackups',
  `UPDATE branch_backup SET newest_at = NULL, backups = 0, size_bytes = 0, started_at = NULL, error = NULL,
     drilled_at = NULL, drill_passed = NULL, drill_error = NULL
   WHERE branch_id IN (SELECT id FROM branch WHERE database_id = $1)`,
)

/**
 * Changes the backup target, which takes effect with the next start of the VMs.
 * @param sealed the encrypted target; null: the backups are stored in volumes
 */
export async function changeTarget(tx: Tx, databaseId: string, sealed: Buffer | null): Promise<void> {
  await tx.run(setTarget, [databaseId, sealed])
  await tx.run(forgetBackups, [databaseId])
}

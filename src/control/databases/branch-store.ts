/** Changes of the branches of databases. */
import { type Tx, statement } from '../../db/db.ts'
import type { Branch, Database } from './store.ts'

type Revisions = Pick<Database, 'revision' | 'passwordRevision'>

const insertBranch = statement(
  'databases.insertBranch',
  `INSERT INTO branch (id, database_id, project_id, name, kind, is_current, timeline_id, parent_id, from_snapshot_id, from_moment)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
)
const provisionBranch = statement(
  'databases.provisionBranch',
  `UPDATE branch SET app_id = $2, data_volume_id = $3, backup_volume_id = $4, revision = $5, password_revision = $6,
     updated_at = now() WHERE id = $1 AND app_id IS NULL`,
)
const setRevision = statement(
  'databases.setRevision',
  `UPDATE branch SET revision = $2, password_revision = $3 WHERE id = $1`,
)
const setAnswers = statement<{ first: boolean }>(
  'databases.setAnswers',
  `UPDATE branch b SET answers = $2, ready_at = CASE WHEN $2 THEN coalesce(b.ready_at, now()) ELSE b.ready_at END,
     error = CASE WHEN $2 THEN NULL ELSE b.error END, updated_at = now()
   FROM branch old WHERE old.id = b.id AND b.id = $1 AND (b.answers <> $2 OR b.ready_at IS NULL AND $2)
   RETURNING old.ready_at IS NULL AS first`,
)
const setError = statement(
  'databases.setError',
  `UPDATE branch SET error = $2, answers = false, updated_at = now() WHERE id = $1`,
)
const startFailedAnew = statement(
  'databases.startFailedAnew',
  `UPDATE branch b SET revision = b.revision - 1, updated_at = now() FROM machine m
   WHERE b.database_id = $1 AND m.kind = 'database' AND m.id = b.id AND m.phase = 'failing' AND b.app_id IS NOT NULL`,
)
const markBranchDeleted = statement(
  'databases.markBranchDeleted',
  `UPDATE branch SET want = 'deleted', updated_at = now() WHERE id = $1 AND want = 'live'`,
)
const deleteBranch = statement('databases.deleteBranch', `DELETE FROM branch WHERE id = $1`)
const dethrone = statement(
  'databases.dethrone',
  `UPDATE branch SET is_current = false, updated_at = now() WHERE database_id = $1 AND is_current`,
)
const crown = statement(
  'databases.crown',
  `UPDATE branch SET is_current = true, updated_at = now() WHERE id = $1 AND want = 'live'`,
)

export const addBranch = (
  tx: Tx,
  b: Pick<
    Branch,
    | 'id'
    | 'databaseId'
    | 'projectId'
    | 'name'
    | 'kind'
    | 'isCurrent'
    | 'timelineId'
    | 'parentId'
    | 'fromSnapshotId'
    | 'fromMoment'
  >,
) =>
  tx.run(insertBranch, [
    b.id,
    b.databaseId,
    b.projectId,
    b.name,
    b.kind,
    b.isCurrent,
    b.timelineId,
    b.parentId,
    b.fromSnapshotId,
    b.fromMoment,
  ])
/** Stores the branch's app and volumes. Returns false when the branch already has an app. */
export const provision = async (
  tx: Tx,
  id: string,
  parts: { readonly appId: string; readonly dataVolumeId: string | null; readonly backupVolumeId: string | null },
  now: Revisions,
) => {
  const { appId, dataVolumeId, backupVolumeId } = parts
  const row = [id, appId, dataVolumeId, backupVolumeId, now.revision, now.passwordRevision]
  return (await tx.run(provisionBranch, row)) === 1
}
/**
 * Marks the settings of failed branches as outdated, so that they are started again: a change of the database may have
 * fixed the failure.
 */
export const tryAgain = (tx: Tx, databaseId: string) => tx.run(startFailedAnew, [databaseId])
/** Records the revisions of the settings and of the password with which the VM is started. */
export const runsRevision = (tx: Tx, id: string, now: Revisions) =>
  tx.run(setRevision, [id, now.revision, now.passwordRevision])
/**
 * Records whether the branch accepts connections. Returns undefined when this was recorded before; `first`: the branch
 * accepts connections for the first time.
 */
export const answers = (tx: Tx, id: string, does: boolean) => tx.maybe(setAnswers, [id, does])
export const fail = (tx: Tx, id: string, error: string) => tx.run(setError, [id, error])
export const markBranchForDeletion = async (tx: Tx, id: string) => (await tx.run(markBranchDeleted, [id])) === 1
export const removeBranch = (tx: Tx, id: string) => tx.run(deleteBranch, [id])
/**
 * Makes the branch the current one of its database, in place of the previous one. Returns false when the branch is
 * being deleted.
 */
export async function promote(tx: Tx, databaseId: string, branchId: string): Promise<boolean> {
  await tx.run(dethrone, [databaseId])
  return (await tx.run(crown, [branchId])) === 1
}

import { type Sql, type Tx, statement } from '../../db/db.ts'
import type { Volume } from './store.ts'

export interface VolumeSnapshot {
  readonly id: string
  readonly projectId: string
  readonly volumeId: string
  readonly name: string
  /**
   * `user`: taken on request. `schedule`: taken by the volume's schedule. `restore`: saves the volume's content before
   * its VM is restored from a VM snapshot.
   */
  readonly kind: 'user' | 'schedule' | 'restore'
  readonly want: 'present' | 'absent'
  readonly state: 'creating' | 'ready' | 'failed'
  readonly sizeBytes: number
  /** Milliseconds for which the VM was paused while the snapshot was taken; null: it was not paused. */
  readonly pauseMs: number | null
  readonly error: string | null
  readonly createdAt: Date
  readonly poolName: string
  readonly hostId: string | null
  readonly hostLost: boolean
  readonly owner: Volume['owner']
  readonly ownerId: string | null
  /** Whether the volume is moving to another host. */
  readonly moving: boolean
  readonly volumeState: 'creating' | 'ready' | 'restoring' | 'failed'
}

const columns = `s.id, s.project_id AS "projectId", s.volume_id AS "volumeId", s.name, s.kind, s.want, s.state,
  s.size_bytes AS "sizeBytes", s.pause_ms AS "pauseMs", s.error, s.created_at AS "createdAt",
  o.pool_name AS "poolName", o.host_id AS "hostId", o.state AS "volumeState", o.owner, o.owner_id AS "ownerId", h.lost_at IS NOT NULL AS "hostLost", o.moving_to IS NOT NULL AS moving`
const joined = `FROM volume_snapshot s JOIN volume o ON o.id = s.volume_id LEFT JOIN host h ON h.id = o.host_id`

const snapshotById = statement<VolumeSnapshot>('volumes.snapshot', `SELECT ${columns} ${joined} WHERE s.id = $1`)
const snapshotOfProject = statement<VolumeSnapshot>(
  'volumes.snapshotOfProject',
  `SELECT ${columns} ${joined}
   WHERE s.id = $2 AND s.project_id = $1 AND s.want = 'present' AND o.want = 'present' AND o.owner = 'user'`,
)
const snapshotByName = statement<VolumeSnapshot>(
  'volumes.snapshotByName',
  `SELECT ${columns} ${joined} WHERE s.volume_id = $1 AND s.name = $2 AND s.want = 'present'`,
)
const snapshotsOf = statement<VolumeSnapshot>(
  'volumes.snapshots',
  `SELECT ${columns} ${joined} WHERE s.volume_id = $1 AND s.want = 'present' ORDER BY s.id DESC`,
)
const insertSnapshot = statement(
  'volumes.insertSnapshot',
  `INSERT INTO volume_snapshot (id, project_id, volume_id, name, kind) VALUES ($1, $2, $3, $4, $5)`,
)
const recordSnapshot = statement<{ volumeId: string }>(
  'volumes.recordSnapshot',
  `UPDATE volume_snapshot s SET state = $3, size_bytes = $4, pause_ms = $5, error = $6 FROM volume o
   WHERE s.id = $1 AND o.id = s.volume_id AND (o.host_id = $2 OR NOT o.bound) AND s.state = 'creating'
   RETURNING s.volume_id AS "volumeId"`,
)
const failSnapshot = statement(
  'volumes.failSnapshot',
  `UPDATE volume_snapshot SET state = 'failed', error = $2 WHERE id = $1 AND state = 'creating'`,
)
const vmsThatWait = statement<{ id: string }>(
  'volumes.vmsWaitingForSnapshot',
  `SELECT k.vm_id AS id FROM volume_snapshot s JOIN vm_disk k ON k.volume_id = s.volume_id
   WHERE s.id = $1 AND s.kind = 'restore'`,
)
const markDeleted = statement(
  'volumes.markSnapshotDeleted',
  `UPDATE volume_snapshot SET want = 'absent' WHERE id = $1 AND want = 'present'`,
)
const deleteSnapshot = statement('volumes.deleteSnapshot', `DELETE FROM volume_snapshot WHERE id = $1`)

export const byId = (sql: Sql, id: string) => sql.maybe(snapshotById, [id])
export const inProject = (sql: Sql, projectId: string, id: string) => sql.maybe(snapshotOfProject, [projectId, id])
export const byName = (sql: Sql, volumeId: string, name: string) => sql.maybe(snapshotByName, [volumeId, name])
export const list = (sql: Sql, volumeId: string) => sql.rows(snapshotsOf, [volumeId])
export const insert = (tx: Tx, s: Pick<VolumeSnapshot, 'id' | 'projectId' | 'volumeId' | 'name' | 'kind'>) =>
  tx.run(insertSnapshot, [s.id, s.projectId, s.volumeId, s.name, s.kind])
/**
 * Records the result that the host has reported, if the snapshot is still being created, and returns the volume's id;
 * otherwise returns undefined.
 */
export const record = async (
  tx: Tx,
  hostId: string,
  observed: Pick<VolumeSnapshot, 'sizeBytes' | 'pauseMs' | 'error'> & {
    readonly snapshotId: string
    readonly state: 'ready' | 'failed'
  },
) =>
  (
    await tx.maybe(recordSnapshot, [
      observed.snapshotId,
      hostId,
      observed.state,
      observed.sizeBytes,
      observed.pauseMs,
      observed.error,
    ])
  )?.volumeId
/** Returns the ids of the VMs whose restore waits until this snapshot of their volume is complete. */
export const vmsWaitingFor = async (tx: Tx, id: string) => (await tx.rows(vmsThatWait, [id])).map(row => row.id)
export const fail = (tx: Tx, id: string, error: string) => tx.run(failSnapshot, [id, error])
export const markForDeletion = async (tx: Tx, id: string) => (await tx.run(markDeleted, [id])) === 1
export const remove = (tx: Tx, id: string) => tx.run(deleteSnapshot, [id])

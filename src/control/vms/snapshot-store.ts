import type { SnapshotDisk, SnapshotObserved } from '../../contract/agent.ts'
import { type Sql, type Tx, statement } from '../../db/db.ts'

export interface Snapshot {
  readonly id: string
  readonly projectId: string
  readonly appId: string
  readonly deploymentId: string
  readonly vmId: string
  readonly hostId: string
  readonly kind: 'user' | 'sleep'
  readonly name: string
  readonly want: 'present' | 'absent'
  readonly state: 'creating' | 'ready' | 'failed'
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
  readonly sizeBytes: number
  readonly sha256: string | null
  readonly madeBy: string | null
  readonly pauseMs: number | null
  readonly error: string | null
  /** Volumes that were attached to the VM when the snapshot was taken. */
  readonly disks: readonly SnapshotDisk[]
  readonly createdAt: Date
  /** Generation of the snapshot's desired state; hosts refuse an older generation than they have stored. */
  readonly generation: number
  /**
   * Target host of a move of the snapshot; null if it is not moving. No VM starts from the snapshot until the move is
   * complete.
   */
  readonly movingTo: string | null
  /** Whether a move of the snapshot is unfinished. A move ends when the source host has removed its copy. */
  readonly moving: boolean
  readonly hostLost: boolean
  readonly hostRemoved: boolean
}

const columns = `s.id, s.project_id AS "projectId", s.app_id AS "appId", s.deployment_id AS "deploymentId", s.vm_id AS "vmId",
  s.host_id AS "hostId", s.kind, s.name, s.want, s.state, s.vcpus, s.memory_mib AS "memoryMib", s.disk_mib AS "diskMib",
  s.size_bytes AS "sizeBytes", s.sha256, s.made_by AS "madeBy", s.pause_ms AS "pauseMs", s.error, s.disks,
  s.generation, s.moving_to AS "movingTo",
  EXISTS (SELECT FROM vm_snapshot_move x WHERE x.snapshot_id = s.id AND x.ended_at IS NULL) AS moving, s.created_at AS "createdAt", h.lost_at IS NOT NULL AS "hostLost", h.removed_at IS NOT NULL AS "hostRemoved"`
const joined = `FROM vm_snapshot s JOIN host h ON h.id = s.host_id`

const snapshotById = statement<Snapshot>('vms.snapshot', `SELECT ${columns} ${joined} WHERE s.id = $1`)
const snapshotsOf = statement<Snapshot>(
  'vms.snapshots',
  `SELECT ${columns} ${joined} WHERE s.deployment_id = $1 AND s.kind = 'user' AND s.want = 'present' ORDER BY s.id DESC`,
)
const named = `WHERE s.deployment_id = $1 AND s.name = $2 AND s.kind = 'user' AND s.want = 'present'`
const snapshotByName = statement<Snapshot>('vms.snapshotByName', `SELECT ${columns} ${joined} ${named}`)
// Locks the snapshot before another statement reads it. One statement cannot do both: a statement that waits for a lock
// reads all other tables as they were before the wait.
const lockNamed = statement<{ id: string }>(
  'vms.lockSnapshot',
  `SELECT s.id FROM vm_snapshot s ${named} FOR NO KEY UPDATE`,
)
// Checks whether a fork still needs the snapshot. A host itself does not delete a snapshot from which one of its VMs
// was started, but before it receives the first desired state of such a VM, only this check protects the snapshot.
const snapshotBeingForked = statement<{ is: boolean }>(
  'vms.snapshotBeingForked',
  `SELECT EXISTS (SELECT FROM volume c WHERE c.from_snapshot_id = $1 AND c.want = 'present' AND c.state = 'creating'
                  AND c.arrived_by IS NULL)
     OR EXISTS (SELECT FROM vm_snapshot s JOIN vm v ON v.project_id = s.project_id WHERE s.id = $1 AND v.from_snapshot_id = s.id
                AND v.from_required AND v.seen_generation = 0 AND v.want <> 'absent') AS is`,
)
// Checks whether a restore of a VM from the snapshot has not reached the host yet. After it has, the host itself does
// not delete the snapshot.
const snapshotBeingRestored = statement<{ is: boolean }>(
  'vms.snapshotBeingRestored',
  `SELECT EXISTS (SELECT FROM vm_snapshot s JOIN vm v ON v.id = s.vm_id WHERE s.id = $1 AND v.from_snapshot_id = s.id
                  AND v.seen_generation < v.generation AND v.want <> 'absent') AS is`,
)
const insertSnapshot = statement(
  'vms.insertSnapshot',
  `INSERT INTO vm_snapshot (id, project_id, app_id, deployment_id, vm_id, host_id, kind, name, vcpus, memory_mib, disk_mib,
     hypervisor)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, (SELECT hypervisor FROM vm WHERE id = $5))`,
)
const recordSnapshot = statement<{ deploymentId: string }>(
  'vms.recordSnapshot',
  `UPDATE vm_snapshot SET state = $3, size_bytes = $4, sha256 = $5, made_by = $6, pause_ms = $7, error = $8,
     disks = $9::jsonb
   WHERE id = $1 AND host_id = $2 AND want = 'present' AND state = 'creating' AND state <> $3
   RETURNING deployment_id AS "deploymentId"`,
)
const failSnapshot = statement(
  'vms.failSnapshot',
  `UPDATE vm_snapshot SET state = 'failed', error = $2 WHERE id = $1 AND state = 'creating'`,
)
const markDeleted = statement(
  'vms.markSnapshotDeleted',
  `UPDATE vm_snapshot SET want = 'absent', generation = generation + 1 WHERE id = $1 AND want = 'present'`,
)
const idsOfDeployment = statement<{ id: string }>(
  'vms.snapshotIds',
  `SELECT id FROM vm_snapshot WHERE deployment_id = $1 AND want = 'present' AND ($2::text IS NULL OR kind = $2) ORDER BY id`,
)
const deleteSnapshot = statement('vms.deleteSnapshot', `DELETE FROM vm_snapshot WHERE id = $1`)

export type NewSnapshot = Pick<
  Snapshot,
  | 'id'
  | 'projectId'
  | 'appId'
  | 'deploymentId'
  | 'vmId'
  | 'hostId'
  | 'kind'
  | 'name'
  | 'vcpus'
  | 'memoryMib'
  | 'diskMib'
>

export const byId = (sql: Sql, id: string) => sql.maybe(snapshotById, [id])
export const list = (sql: Sql, deploymentId: string) => sql.rows(snapshotsOf, [deploymentId])
export const byName = (sql: Sql, deploymentId: string, name: string) => sql.maybe(snapshotByName, [deploymentId, name])
/**
 * Finds a snapshot like `byName`, and locks its row until the transaction ends. The caller must already have locked
 * the snapshot's volumes.
 */
export const lockByName = async (tx: Tx, deploymentId: string, name: string) =>
  (await tx.maybe(lockNamed, [deploymentId, name])) && byName(tx, deploymentId, name)
/**
 * Returns whether a fork still needs the snapshot: its volumes are being cloned from it, or one of its VMs has not
 * started yet. Call it after `lockByName`: one statement could not do both, because a statement that waits for a lock
 * sees other rows as they were before the wait.
 */
export const isBeingForked = async (sql: Sql, id: string) => (await sql.one(snapshotBeingForked, [id])).is
/** Returns whether a restore from this snapshot has not reached the VM's host yet. */
export const isBeingRestored = async (sql: Sql, id: string) => (await sql.one(snapshotBeingRestored, [id])).is
export const insert = (tx: Tx, s: NewSnapshot) =>
  tx.run(insertSnapshot, [
    s.id,
    s.projectId,
    s.appId,
    s.deploymentId,
    s.vmId,
    s.hostId,
    s.kind,
    s.name,
    s.vcpus,
    s.memoryMib,
    s.diskMib,
  ])
/**
 * Records the result that the host has reported, if the snapshot is still being created, and returns the deployment's
 * id; otherwise returns undefined.
 */
export const record = async (
  tx: Tx,
  hostId: string,
  observed: SnapshotObserved & { readonly state: 'ready' | 'failed' },
) =>
  (
    await tx.maybe(recordSnapshot, [
      observed.snapshotId,
      hostId,
      observed.state,
      observed.sizeBytes,
      observed.sha256,
      observed.madeBy,
      observed.pauseMs,
      observed.error,
      JSON.stringify(observed.disks ?? []),
    ])
  )?.deploymentId
export const fail = (tx: Tx, id: string, error: string) => tx.run(failSnapshot, [id, error])
export const markForDeletion = async (tx: Tx, id: string) => (await tx.run(markDeleted, [id])) === 1
export const idsOf = async (tx: Tx, deploymentId: string, kind: Snapshot['kind'] | null) =>
  (await tx.rows(idsOfDeployment, [deploymentId, kind])).map(row => row.id)
export const remove = (tx: Tx, id: string) => tx.run(deleteSnapshot, [id])

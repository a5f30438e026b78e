import type { Transfer } from '../../contract/agent.ts'
import { type Sql, type Tx, statement } from '../../db/db.ts'
import { someRunnerLacks } from '../../engine/statements.ts'
import { groupBytes } from './copy-timeout.ts'

export interface SnapshotMove {
  readonly id: string
  readonly snapshotId: string
  readonly snapshotName: string
  readonly vmId: string
  /** Id of the move group, which switches to the target in one commit. */
  readonly groupId: string
  /** The migration of the VM to which the volumes are attached; null when they are detached. */
  readonly migrationId: string | null
  readonly sourceHostId: string
  readonly targetHostId: string
  readonly want: 'move' | 'cancel'
  readonly state:
    | 'preparing'
    | 'copying'
    | 'complete'
    | 'clearing'
    | 'cancelling'
    | 'dropping'
    | 'completed'
    | 'cancelled'
    | 'failed'
  readonly uri: string | null
  readonly percent: number
  readonly transferredBytes: number
  /** Upper bound of the bytes in the whole move group. */
  readonly movedBytes: number
  /** Time at which the copy last made progress. */
  readonly progressedAt: Date
  readonly error: string | null
  readonly sourceLost: boolean
  readonly sourceRemoved: boolean
  readonly targetLost: boolean
  readonly targetRemoved: boolean
  /** Desired state of the snapshot; `absent` once it was deleted. */
  readonly snapshotWant: 'present' | 'absent'
  readonly generation: number
  readonly sizeBytes: number
  readonly sha256: string | null
  readonly madeBy: string | null
  /**
   * Whether the target has confirmed that it has the snapshot. Until then, no VM may start from the snapshot, and it
   * cannot move again.
   */
  readonly landed: boolean
}

const columns = `x.id, x.snapshot_id AS "snapshotId", n.name AS "snapshotName", n.vm_id AS "vmId", x.group_id AS "groupId",
  x.migration_id AS "migrationId", x.source_host_id AS "sourceHostId", x.target_host_id AS "targetHostId", x.want, x.state, x.uri, x.error,
  x.percent, x.transferred_bytes AS "transferredBytes", x.progressed_at AS "progressedAt",
  s.lost_at IS NOT NULL AS "sourceLost", s.removed_at IS NOT NULL AS "sourceRemoved", t.lost_at IS NOT NULL AS "targetLost",
  t.removed_at IS NOT NULL AS "targetRemoved", n.want AS "snapshotWant", n.generation, n.size_bytes AS "sizeBytes", n.sha256,
  n.made_by AS "madeBy", ${groupBytes('x.group_id')} AS "movedBytes",
  n.moving_to IS NULL OR EXISTS (SELECT FROM vm_snapshot_move y WHERE y.snapshot_id = x.snapshot_id AND y.id > x.id) AS landed`
const joined = `FROM vm_snapshot_move x JOIN vm_snapshot n ON n.id = x.snapshot_id JOIN host s ON s.id = x.source_host_id
  JOIN host t ON t.id = x.target_host_id`
const underWay = `('preparing', 'copying', 'complete')`

const moveById = statement<SnapshotMove>(
  'moves.snapshotMove',
  `SELECT ${columns} ${joined} WHERE x.id = $1 AND x.ended_at IS NULL`,
)
const movesOfGroup = statement<SnapshotMove>(
  'moves.snapshotsOfGroup',
  `SELECT ${columns} ${joined} WHERE x.group_id = $1 ORDER BY x.snapshot_id`,
)
const lockSnapshots = statement<{ id: string }>(
  'moves.lockSnapshotsOfGroup',
  `SELECT id FROM vm_snapshot WHERE id IN (SELECT snapshot_id FROM vm_snapshot_move WHERE group_id = $1)
   ORDER BY id FOR NO KEY UPDATE`,
)
const lockMoves = statement<{ id: string }>(
  'moves.lockSnapshots',
  `SELECT id FROM vm_snapshot_move WHERE group_id = $1 ORDER BY id FOR UPDATE`,
)
const liveMoves = statement<{ id: string }>(
  'moves.liveOfSnapshot',
  `SELECT id FROM vm_snapshot_move WHERE snapshot_id = $1 AND ended_at IS NULL`,
)
/**
 * Workflow kind of snapshot moves. Moves of volumes and VMs wait for these workflows; an older control plane, which
 * lacks the kind, would not wait.
 */
export const snapshotMoveKind = 'vm-snapshot-move'
/** SQL condition: a control plane of an older version is running. */
export const olderRuns = someRunnerLacks(snapshotMoveKind)
// Locks the snapshot before `beginMove`. This must be a separate statement: a statement that waits for a lock sees
// other rows as they were before the wait, so it would miss a fork whose transaction held the lock.
const lockSnapshot = statement('moves.lockSnapshot', `SELECT id FROM vm_snapshot WHERE id = $1 FOR NO KEY UPDATE`)
// Starts a move, unless the snapshot is in use: clones are being made from it, a fork has not started from it yet, or a
// VM is being restored from it.
const beginMove = statement<{ id: string }>(
  'moves.beginSnapshot',
  `WITH leaving AS (
     UPDATE vm_snapshot s SET moving_to = $3, generation = s.generation + 1
     WHERE s.id = $2 AND s.moving_to IS NULL AND s.want = 'present' AND s.state = 'ready' AND s.host_id <> $3
       AND NOT EXISTS (SELECT FROM volume c WHERE c.from_snapshot_id = s.id AND c.want = 'present' AND c.state = 'creating'
         AND c.arrived_by IS NULL)
       AND NOT EXISTS (SELECT FROM vm v WHERE v.project_id = s.project_id AND v.from_snapshot_id = s.id AND v.want <> 'absent'
         AND (v.seen_generation = 0 OR (NOT v.from_renew AND v.seen_generation < v.generation)))
       AND NOT ${olderRuns}
       -- Leftovers of an earlier move must be removed first.
       AND NOT EXISTS (SELECT FROM vm_snapshot_move x WHERE x.snapshot_id = s.id AND x.ended_at IS NULL AND (
         (x.state = 'clearing' AND x.source_host_id = $3) OR (x.state = 'dropping' AND x.target_host_id = $3)))
     RETURNING s.id, s.host_id
   )
   INSERT INTO vm_snapshot_move (id, snapshot_id, group_id, migration_id, source_host_id, target_host_id)
   SELECT $1, id, $4, $5, host_id, $3 FROM leaving RETURNING id`,
)
const setState = statement(
  'moves.snapshotState',
  `UPDATE vm_snapshot_move SET state = $2, uri = coalesce($3, uri), progressed_at = now()
   WHERE id = $1 AND state IN ${underWay}`,
)
const recordProgress = statement(
  'moves.snapshotProgress',
  `UPDATE vm_snapshot_move SET percent = greatest(percent, $2), transferred_bytes = $3, total_bytes = $4,
     progressed_at = CASE WHEN percent < $2 OR transferred_bytes <> $3 THEN now() ELSE progressed_at END
   WHERE id = $1 AND ended_at IS NULL`,
)
const requestCancel = statement(
  'moves.cancelSnapshot',
  `UPDATE vm_snapshot_move SET want = 'cancel', error = coalesce(error, $2) WHERE id = $1 AND state IN ${underWay}`,
)
const arrive = statement<{ id: string }>(
  'moves.arriveSnapshot',
  `WITH done AS (
     UPDATE vm_snapshot_move SET state = 'clearing', percent = 100 WHERE id = $1 AND want = 'move' AND state = 'complete'
     RETURNING snapshot_id, target_host_id
   )
   UPDATE vm_snapshot s SET host_id = d.target_host_id, generation = s.generation + 1 FROM done d WHERE s.id = d.snapshot_id
   RETURNING s.id`,
)
const landOnTarget = statement(
  'moves.landSnapshot',
  `UPDATE vm_snapshot s SET moving_to = NULL FROM vm_snapshot_move x WHERE x.id = $1 AND s.id = x.snapshot_id AND x.state = 'clearing'`,
)
const markLost = statement(
  'moves.loseSnapshot',
  `UPDATE vm_snapshot s SET moving_to = NULL, state = 'failed', error = $2 FROM vm_snapshot_move x
   WHERE x.id = $1 AND s.id = x.snapshot_id AND x.state = 'clearing'`,
)
const giveUpMove = statement(
  'moves.giveUpSnapshot',
  `WITH given_up AS (UPDATE vm_snapshot_move SET state = 'cancelling' WHERE id = $1 AND state IN ${underWay} RETURNING snapshot_id)
   UPDATE vm_snapshot s SET generation = s.generation + 1 FROM given_up d WHERE s.id = d.snapshot_id`,
)
const stay = statement(
  'moves.staySnapshot',
  `WITH stays AS (UPDATE vm_snapshot_move SET state = 'dropping' WHERE id = $1 AND state = 'cancelling' RETURNING snapshot_id)
   UPDATE vm_snapshot s SET moving_to = NULL FROM stays d WHERE s.id = d.snapshot_id`,
)
const endMove = statement(
  'moves.endSnapshot',
  `UPDATE vm_snapshot_move SET state = $2, ended_at = now() WHERE id = $1 AND ended_at IS NULL`,
)

export const snapshotMove = (sql: Sql, id: string) => sql.maybe(moveById, [id])
/** Returns the snapshot moves of a group of detached volumes, or of a migration. */
export const snapshotMovesOf = (sql: Sql, groupId: string) => sql.rows(movesOfGroup, [groupId])
/** Locks the snapshots, then their moves. Both locks are required to change a move. */
export async function lockGroup(tx: Tx, groupId: string): Promise<void> {
  await tx.rows(lockSnapshots, [groupId])
  await tx.rows(lockMoves, [groupId])
}
/** Returns the unfinished moves of snapshots, including those whose source still has to remove its copy. */
export const liveSnapshotMoves = async (sql: Sql, snapshotId: string) =>
  (await sql.rows(liveMoves, [snapshotId])).map(row => row.id)

export interface NewSnapshotMove {
  readonly id: string
  readonly snapshotId: string
  readonly targetHostId: string
  readonly groupId: string
  readonly migrationId: string | null
}
/** Starts a move of a snapshot. Returns false when the snapshot is already on the target, or is in use. */
export const begin = async (tx: Tx, m: NewSnapshotMove) => {
  await tx.rows(lockSnapshot, [m.snapshotId])
  return (await tx.rows(beginMove, [m.id, m.snapshotId, m.targetHostId, m.groupId, m.migrationId])).length === 1
}
export const enter = (tx: Tx, id: string, state: SnapshotMove['state'], uri: string | null = null) =>
  tx.run(setState, [id, state, uri])
export const progress = (tx: Tx, id: string, observed: Pick<Transfer, 'percent' | 'transferredBytes' | 'totalBytes'>) =>
  tx.run(recordProgress, [id, observed.percent, observed.transferredBytes, observed.totalBytes])
export const cancel = async (tx: Tx, id: string, error: string | null = null) =>
  (await tx.run(requestCancel, [id, error])) === 1
/** Assigns the snapshot to the target. Returns false when the move was cancelled, or the copy is incomplete. */
export const complete = async (tx: Tx, id: string) => (await tx.rows(arrive, [id])).length === 1
/** Records that the target has confirmed the complete snapshot, which can then be used. */
export const land = (tx: Tx, id: string) => tx.run(landOnTarget, [id])
/** Marks the snapshot as failed, because its new host has lost it. */
export const lose = (tx: Tx, id: string, error: string) => tx.run(markLost, [id, error])
export const giveUp = (tx: Tx, id: string) => tx.run(giveUpMove, [id])
/** Makes the snapshot usable again on the source, which has confirmed the cancellation. */
export const release = (tx: Tx, id: string) => tx.run(stay, [id])
export const end = (tx: Tx, id: string, state: 'completed' | 'cancelled' | 'failed') => tx.run(endMove, [id, state])

import type { Transfer } from '../../contract/agent.ts'
import { type Sql, type Tx, statement } from '../../db/db.ts'
import { groupBytes } from './copy-timeout.ts'
import { goingWith } from './retained.ts'

export interface VolumeMove {
  readonly id: string
  readonly volumeId: string
  readonly volumeName: string
  /** The migration of the VM with which the volume moves; null when the volume is detached. */
  readonly migrationId: string | null
  readonly vmId: string | null
  readonly sourceHostId: string
  readonly targetHostId: string
  readonly sourcePool: string
  readonly targetPool: string
  /** Detached volumes with the same group id switch to the target in one commit; null for a single volume. */
  readonly groupId: string | null
  readonly how: 'copied' | 'brought'
  readonly want: 'move' | 'cancel'
  readonly state:
    | 'preparing'
    | 'copying'
    | 'copied'
    | 'complete'
    | 'clearing'
    | 'cancelling'
    | 'dropping'
    | 'completed'
    | 'cancelled'
    | 'failed'
  readonly final: boolean
  readonly uri: string | null
  readonly percent: number
  readonly transferredBytes: number
  readonly totalBytes: number
  readonly error: string | null
  readonly startedAt: Date
  readonly endedAt: Date | null
  readonly sourceLost: boolean
  readonly sourceRemoved: boolean
  readonly targetLost: boolean
  readonly targetRemoved: boolean
  /** Desired state of the volume; `absent` once it was deleted. */
  readonly volumeWant: 'present' | 'absent'
  readonly volumeState: 'creating' | 'ready' | 'restoring' | 'failed'
  /** Id of the move that brought the volume to its current host. */
  readonly arrivedBy: string | null
  readonly generation: number
  readonly sizeMib: number
  /** Upper bound of the bytes in the whole move group, from which time limits are computed. */
  readonly movedBytes: number
  /** Encryption key of the volume, sealed with purpose `volume.key`. */
  readonly key: Buffer | null
  /** Snapshots that move with the volume, oldest first. */
  readonly snapshots: readonly string[]
}

const columns = `x.id, x.volume_id AS "volumeId", o.name AS "volumeName", x.migration_id AS "migrationId", x.group_id AS "groupId", g.vm_id AS "vmId",
  x.source_host_id AS "sourceHostId", x.target_host_id AS "targetHostId", x.source_pool AS "sourcePool", x.target_pool AS "targetPool",
  x.how, x.want, x.state, x.final, x.uri, x.percent, x.transferred_bytes AS "transferredBytes", x.total_bytes AS "totalBytes",
  x.error, x.started_at AS "startedAt", x.ended_at AS "endedAt", s.lost_at IS NOT NULL AS "sourceLost",
  s.removed_at IS NOT NULL AS "sourceRemoved", t.lost_at IS NOT NULL AS "targetLost", t.removed_at IS NOT NULL AS "targetRemoved",
  o.want AS "volumeWant", o.state AS "volumeState", o.arrived_by AS "arrivedBy", o.generation, o.size_mib AS "sizeMib", o.key,
  ${goingWith('o.id')} AS snapshots, ${groupBytes('coalesce(x.group_id, x.migration_id, x.id)')} AS "movedBytes"`
const joined = `FROM volume_move x JOIN volume o ON o.id = x.volume_id JOIN host s ON s.id = x.source_host_id
  JOIN host t ON t.id = x.target_host_id LEFT JOIN migration g ON g.id = x.migration_id`
const underWay = `('preparing', 'copying', 'copied', 'complete')`

const moveById = statement<VolumeMove>(
  'moves.byId',
  `SELECT ${columns} ${joined} WHERE x.id = $1 AND x.ended_at IS NULL`,
)
const movesOfMigration = statement<VolumeMove>(
  'moves.ofMigration',
  `SELECT ${columns} ${joined} WHERE x.migration_id = $1 ORDER BY x.volume_id`,
)
const movesOfGroup = statement<VolumeMove>(
  'moves.ofGroup',
  `SELECT ${columns} ${joined} WHERE x.group_id = $1 ORDER BY x.volume_id`,
)
const newestOfVolume = statement<VolumeMove>(
  'moves.newest',
  `SELECT ${columns} ${joined} WHERE x.volume_id = $1 ORDER BY x.id DESC LIMIT 1`,
)
// FOR NO KEY UPDATE, because inserts of rows that reference the volume take a key share lock, which FOR UPDATE would
// block.
const lockVolumes = statement<{ id: string }>(
  'moves.lockVolumes',
  `SELECT id FROM volume WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE`,
)
const lockVolumesOfGroup = statement<{ id: string }>(
  'moves.lockVolumesOfGroup',
  `SELECT id FROM volume WHERE id IN (SELECT volume_id FROM volume_move WHERE group_id = $1 OR migration_id = $1)
   ORDER BY id FOR NO KEY UPDATE`,
)
const beginMove = statement<{ id: string }>(
  'moves.begin',
  `WITH leaving AS (
     UPDATE volume SET moving_to = $3, generation = generation + 1, updated_at = now()
     WHERE id = $2 AND moving_to IS NULL AND want = 'present' AND state = 'ready' AND bound AND host_id <> $3
       AND grown_mib >= size_mib
       AND NOT EXISTS (SELECT FROM volume_snapshot n WHERE n.volume_id = $2 AND n.state = 'creating')
       AND NOT EXISTS (SELECT FROM volume c WHERE c.from_volume_id = $2 AND c.want = 'present' AND c.state = 'creating'
         AND c.arrived_by IS NULL)
       -- Leftovers of an earlier move must be removed first.
       AND NOT EXISTS (SELECT FROM volume_move x WHERE x.volume_id = $2 AND x.ended_at IS NULL AND (
         (x.state = 'clearing' AND x.source_host_id = $3) OR (x.state = 'dropping' AND x.target_host_id = $3)))
     RETURNING id, host_id, pool_name
   )
   INSERT INTO volume_move (id, volume_id, migration_id, source_host_id, target_host_id, source_pool, target_pool, how, final, group_id)
   SELECT $1, id, $4, host_id, $3, pool_name, $5, $6, $7, $8 FROM leaving RETURNING id`,
)
const setState = statement(
  'moves.state',
  `UPDATE volume_move SET state = $2, uri = coalesce($3, uri) WHERE id = $1 AND state IN ${underWay}`,
)
const recordProgress = statement(
  'moves.progress',
  `UPDATE volume_move SET percent = greatest(percent, $2), transferred_bytes = $3, total_bytes = $4
   WHERE id = $1 AND ended_at IS NULL`,
)
const requestCancel = statement(
  'moves.cancel',
  `UPDATE volume_move SET want = 'cancel', error = coalesce(error, $2) WHERE id = $1 AND state IN ${underWay}`,
)
const finalise = statement<{ id: string }>(
  'moves.final',
  `WITH last AS (UPDATE volume_move SET final = true WHERE migration_id = $1 AND NOT final AND state IN ${underWay} RETURNING id, volume_id),
     raised AS (UPDATE volume o SET generation = o.generation + 1 FROM last WHERE o.id = last.volume_id)
   SELECT id FROM last`,
)
// Assigns the volume to the target. If a VM has it attached read-write, the attach generation rises, which fences the
// writer on the source. Without a writer the content does not change, and snapshots of its readers stay valid, so the
// generation stays the same (docs/decisions/0076-lock-order.md).
const arrive = statement<{ volumeId: string }>(
  'moves.arrive',
  `WITH done AS (
     UPDATE volume_move SET state = 'clearing', percent = 100 WHERE id = $1 AND want = 'move' AND state = $2
     RETURNING id, volume_id, target_host_id, target_pool
   ), moved AS (
     UPDATE volume o SET host_id = d.target_host_id, pool_name = d.target_pool, moving_to = NULL, arrived_by = d.id, state = 'creating',
       error = NULL, generation = o.generation + 1, updated_at = now(), attach_generation = o.attach_generation +
         EXISTS (SELECT FROM vm_disk k WHERE k.volume_id = o.id AND NOT k.read_only)::int
     FROM done d WHERE o.id = d.volume_id RETURNING o.id, o.attach_generation
   ), held AS (
     UPDATE vm_disk k SET generation = moved.attach_generation FROM moved WHERE k.volume_id = moved.id
   )
   SELECT id AS "volumeId" FROM moved`,
)
const giveUpMove = statement(
  'moves.giveUp',
  `WITH given_up AS (UPDATE volume_move SET state = 'cancelling' WHERE id = $1 AND state IN ${underWay} RETURNING volume_id)
   UPDATE volume o SET generation = o.generation + 1 FROM given_up d WHERE o.id = d.volume_id`,
)
const stay = statement(
  'moves.stay',
  `WITH stays AS (UPDATE volume_move SET state = 'dropping' WHERE id = $1 AND state = 'cancelling' RETURNING volume_id)
   UPDATE volume o SET moving_to = NULL, updated_at = now() FROM stays d WHERE o.id = d.volume_id`,
)
const endMove = statement(
  'moves.end',
  `UPDATE volume_move SET state = $2, ended_at = now() WHERE id = $1 AND ended_at IS NULL`,
)
const liveMoves = statement<{ id: string }>(
  'moves.live',
  `SELECT id FROM volume_move WHERE volume_id = $1 AND ended_at IS NULL`,
)
const dependents = statement<{ kind: string; id: string }>(
  'moves.dependents',
  `SELECT 'vm' AS kind, v.id FROM volume_attachment t JOIN vm v ON v.app_id = t.app_id WHERE t.volume_id = $1
   UNION ALL SELECT 'volume-snapshot', s.id FROM volume_snapshot s WHERE s.volume_id = $1 AND (s.state = 'creating' OR s.want = 'absent')
   UNION ALL SELECT 'volume', $1`,
)

export const byId = (sql: Sql, id: string) => sql.maybe(moveById, [id])
export const ofMigration = (sql: Sql, migrationId: string) => sql.rows(movesOfMigration, [migrationId])
export const ofGroup = (sql: Sql, groupId: string) => sql.rows(movesOfGroup, [groupId])
/** Returns the latest move of a volume, finished or not. */
export const newest = (sql: Sql, volumeId: string) => sql.maybe(newestOfVolume, [volumeId])
/** Locks several volumes in id order. Must be called before the rows of their moves are locked. */
export const lock = (tx: Tx, volumeIds: readonly string[]) => tx.rows(lockVolumes, [volumeIds])
/** Locks the volumes of a group or of a migration. */
export const lockGroup = (tx: Tx, groupId: string) => tx.rows(lockVolumesOfGroup, [groupId])
export interface NewMove {
  readonly id: string
  readonly volumeId: string
  readonly targetHostId: string
  readonly targetPool: string
  readonly migrationId: string | null
  readonly groupId: string | null
  readonly how: VolumeMove['how']
  readonly final: boolean
}
/** Starts a move. Returns false when the volume is already on the target, or another operation uses it. */
export const begin = async (tx: Tx, m: NewMove) =>
  (await tx.rows(beginMove, [m.id, m.volumeId, m.targetHostId, m.migrationId, m.targetPool, m.how, m.final, m.groupId]))
    .length === 1
export const enter = (tx: Tx, id: string, state: VolumeMove['state'], uri: string | null = null) =>
  tx.run(setState, [id, state, uri])
export const progress = (tx: Tx, id: string, observed: Pick<Transfer, 'percent' | 'transferredBytes' | 'totalBytes'>) =>
  tx.run(recordProgress, [id, observed.percent, observed.transferredBytes, observed.totalBytes])
export const cancel = async (tx: Tx, id: string, error: string | null = null) =>
  (await tx.run(requestCancel, [id, error])) === 1
/**
 * Allows the last pass of the copies of a migration's volumes. Returns the ids of the moves for which it was not
 * allowed before.
 */
export const makeFinal = async (tx: Tx, migrationId: string) =>
  (await tx.rows(finalise, [migrationId])).map(row => row.id)
/** Assigns the volume to the target. Returns false when the move was cancelled in the meantime. */
export const complete = async (tx: Tx, id: string, from: VolumeMove['state']) =>
  (await tx.rows(arrive, [id, from])).length === 1
export const giveUp = (tx: Tx, id: string) => tx.run(giveUpMove, [id])
/** Makes the volume usable again on the source, which has confirmed the cancellation. */
export const release = (tx: Tx, id: string) => tx.run(stay, [id])
export const end = (tx: Tx, id: string, state: 'completed' | 'cancelled' | 'failed') => tx.run(endMove, [id, state])
/** Returns the unfinished moves of a volume, including those whose source still has to remove its copy. */
export const live = async (sql: Sql, volumeId: string) => (await sql.rows(liveMoves, [volumeId])).map(row => row.id)
/** Returns the workflows that have to be poked after the volume has moved. */
export const waiting = (tx: Tx, volumeId: string) => tx.rows(dependents, [volumeId])

import type { MigrationObserved } from '../../contract/agent.ts'
import { type Sql, type Tx, statement } from '../../db/db.ts'
import { retainLog } from '../vms/index.ts'

export interface Migration {
  readonly id: string
  readonly projectId: string
  readonly appId: string
  readonly deploymentId: string
  readonly vmId: string
  readonly sourceHostId: string
  readonly targetHostId: string
  readonly method: 'live' | 'stop-and-copy'
  readonly want: 'move' | 'cancel'
  readonly state:
    | 'preparing'
    | 'copying'
    | 'switching'
    | 'clearing'
    | 'cancelling'
    | 'completed'
    | 'cancelled'
    | 'failed'
  readonly uri: string | null
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
  readonly percent: number
  readonly transferredBytes: number
  readonly totalBytes: number
  readonly downtimeMs: number | null
  readonly error: string | null
  /** True if the VM has volumes, which then move with it. */
  readonly withVolumes: boolean
  /**
   * Time at which the snapshots that move with the VM were complete on the target; null: not yet, or the VM has no
   * volumes.
   */
  readonly coMovedAt: Date | null
  /** Time at which gateways began to hold new requests to the VM; null while they do not hold any. */
  readonly heldAt: Date | null
  /** Time at which the source host was allowed to hand the VM over. */
  readonly releasedAt: Date | null
  /** True while the app's route lists the VM as leaving, so that gateways may still have open requests to it. */
  readonly isRouted: boolean
  readonly startedAt: Date
  readonly endedAt: Date | null
  readonly sourceLost: boolean
  readonly sourceRemoved: boolean
  readonly sourceDraining: boolean
  readonly targetLost: boolean
  readonly targetRemoved: boolean
}

const columns = `g.id, g.project_id AS "projectId", g.app_id AS "appId", g.deployment_id AS "deploymentId", g.vm_id AS "vmId",
  g.source_host_id AS "sourceHostId", g.target_host_id AS "targetHostId", g.method, g.want, g.state, g.uri, g.vcpus,
  g.memory_mib AS "memoryMib", g.disk_mib AS "diskMib", g.percent, g.transferred_bytes AS "transferredBytes",
  g.total_bytes AS "totalBytes", g.downtime_ms AS "downtimeMs", g.error, g.with_volumes AS "withVolumes", g.luggage_at AS "coMovedAt",
  g.held_at AS "heldAt", g.released_at AS "releasedAt", EXISTS (SELECT FROM route r WHERE r.app_id = g.app_id AND r.state <> 'gone'
    AND r.leaving @> jsonb_build_array(jsonb_build_object('moveId', g.id))) AS "isRouted",
  g.started_at AS "startedAt",
  g.ended_at AS "endedAt", s.lost_at IS NOT NULL AS "sourceLost", s.removed_at IS NOT NULL AS "sourceRemoved", s.draining AS "sourceDraining",
  t.lost_at IS NOT NULL AS "targetLost", t.removed_at IS NOT NULL AS "targetRemoved"`
const joined = `FROM migration g JOIN host s ON s.id = g.source_host_id JOIN host t ON t.id = g.target_host_id`

const migrationById = statement<Migration>(
  'vms.migration',
  `SELECT ${columns} ${joined} WHERE g.id = $1 AND g.ended_at IS NULL`,
)
const newestMigration = statement<Migration>(
  'vms.newestMigration',
  `SELECT ${columns} ${joined} WHERE g.deployment_id = $1 ORDER BY g.id DESC LIMIT 1`,
)
const insertMigration = statement(
  'vms.insertMigration',
  `INSERT INTO migration (id, project_id, app_id, deployment_id, vm_id, source_host_id, target_host_id, method, vcpus,
     memory_mib, disk_mib, with_volumes)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
)
const setState = statement(
  'vms.migrationState',
  `UPDATE migration SET state = $2, uri = coalesce($3, uri) WHERE id = $1`,
)
const recordProgress = statement(
  'vms.migrationProgress',
  `UPDATE migration SET percent = greatest(percent, $2), transferred_bytes = $3, total_bytes = $4,
     downtime_ms = coalesce($5, downtime_ms)
   WHERE id = $1 AND ended_at IS NULL`,
)
const coMovedAreThere = statement(
  'vms.migrationCoMoved',
  `UPDATE migration SET luggage_at = coalesce(luggage_at, now()) WHERE id = $1`,
)
const holdMigration = statement(
  'vms.holdMigration',
  `UPDATE migration SET held_at = now() WHERE id = $1 AND state = 'copying' AND held_at IS NULL`,
)
const releaseMigration = statement(
  'vms.releaseMigration',
  `UPDATE migration SET released_at = now() WHERE id = $1 AND state = 'copying' AND released_at IS NULL`,
)
const liftHold = statement('vms.liftHold', `UPDATE migration SET held_at = NULL WHERE id = $1 AND state = 'copying'`)
const noteError = statement(
  'vms.migrationError',
  `UPDATE migration SET error = coalesce(error, $2), want = 'cancel' WHERE id = $1`,
)
const endMigration = statement(
  'vms.endMigration',
  `UPDATE migration SET state = $2, ended_at = now(), percent = CASE WHEN $2 = 'completed' THEN 100 ELSE percent END
   WHERE id = $1 AND ended_at IS NULL`,
)
const requestCancel = statement(
  'vms.cancelMigration',
  `UPDATE migration SET want = 'cancel' WHERE id = $1 AND state IN ('preparing', 'copying')`,
)
// Assigns the VM to the target. From then on, reports of the source about the VM do not count.
const moveVm = statement(
  'vms.move',
  `WITH logged AS (${retainLog("v.id = $1 AND v.want <> 'absent'")})
   UPDATE vm SET host_id = $2, generation = generation + 1, seen_generation = least(seen_generation, $3),
     -- The snapshot that the VM once started from stays on the old host.
     from_snapshot_id = NULL, from_renew = false, pinned_host_id = NULL,
     seen_count = seen_count + 1, seen_at_us = 0, healthy = false, endpoint_host = NULL, endpoint_port = NULL
   WHERE id = $1 AND want <> 'absent'`,
)
const raiseGeneration = statement(
  'vms.raiseGeneration',
  `UPDATE vm SET generation = generation + 1 WHERE id = $1 AND want <> 'absent'`,
)

const countFrom = statement<{ count: number }>(
  'vms.migrationsFrom',
  `SELECT count(*)::int AS count FROM migration WHERE source_host_id = $1 AND ended_at IS NULL`,
)

// Counts the VM's recent failed moves. After a failure, a VM with volumes waits before it moves again (`canTakeVolumes`
// in deployments).
const failedOf = statement<{ count: number; error: string | null }>(
  'vms.failedMigrations',
  `SELECT count(*)::int AS count, max(error) AS error FROM migration WHERE vm_id = $1 AND source_host_id = $2 AND state = 'failed'
     AND ended_at > now() - interval '10 minutes'`,
)

export const byId = (sql: Sql, id: string) => sql.maybe(migrationById, [id])
/**
 * Returns the number of moves of the VM from that host that failed in the last ten minutes, and one of their errors.
 */
export const failedMoves = (sql: Sql, vmId: string, hostId: string) => sql.one(failedOf, [vmId, hostId])
export const newest = (sql: Sql, deploymentId: string) => sql.maybe(newestMigration, [deploymentId])
/** Counts the running migrations of VMs that leave the host. */
export const countFromHost = async (sql: Sql, hostId: string) => (await sql.one(countFrom, [hostId])).count
export type NewMigration = Pick<
  Migration,
  | 'id'
  | 'projectId'
  | 'appId'
  | 'deploymentId'
  | 'vmId'
  | 'sourceHostId'
  | 'targetHostId'
  | 'method'
  | 'vcpus'
  | 'memoryMib'
  | 'diskMib'
> &
  Partial<Pick<Migration, 'withVolumes'>>
export const insert = (tx: Tx, m: NewMigration) =>
  tx.run(insertMigration, [
    m.id,
    m.projectId,
    m.appId,
    m.deploymentId,
    m.vmId,
    m.sourceHostId,
    m.targetHostId,
    m.method,
    m.vcpus,
    m.memoryMib,
    m.diskMib,
    m.withVolumes ?? false,
  ])
export const enter = (tx: Tx, id: string, state: Migration['state'], uri: string | null = null) =>
  tx.run(setState, [id, state, uri])
export const progress = (
  tx: Tx,
  id: string,
  observed: Pick<MigrationObserved, 'percent' | 'transferredBytes' | 'totalBytes' | 'downtimeMs'>,
) => tx.run(recordProgress, [id, observed.percent, observed.transferredBytes, observed.totalBytes, observed.downtimeMs])
export const coMovedThere = (tx: Tx, id: string) => tx.run(coMovedAreThere, [id])
/** Makes gateways hold new requests to the VM from this commit on. */
export const hold = (tx: Tx, id: string) => tx.run(holdMigration, [id])
/** Allows the source host to hand the VM over to the target. */
export const release = (tx: Tx, id: string) => tx.run(releaseMigration, [id])
/** Ends the hold: gateways send requests to the VM on its old host again, although its move continues. */
export const lift = (tx: Tx, id: string) => tx.run(liftHold, [id])
/** Records the error of a failed move and requests its cancellation. */
export const fail = (tx: Tx, id: string, error: string) => tx.run(noteError, [id, error])
export const end = (tx: Tx, id: string, state: 'completed' | 'cancelled' | 'failed') =>
  tx.run(endMigration, [id, state])
/** Requests that the migration is cancelled. Returns false when it is too late. */
export const cancel = async (tx: Tx, id: string) => (await tx.run(requestCancel, [id])) === 1
/** Assigns the VM to another host. Returns false when the VM is being removed. */
export const move = async (tx: Tx, vmId: string, hostId: string, observedGeneration: number) =>
  (await tx.run(moveVm, [vmId, hostId, observedGeneration])) === 1
export const raise = (tx: Tx, vmId: string) => tx.run(raiseGeneration, [vmId])

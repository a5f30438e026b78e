import { type Sql, type Tx, statement } from '../../db/db.ts'
import { retainLog } from '../vms/index.ts'

/** The properties of a VM's volume that matter when the VM moves. */
export interface DiskToMove {
  readonly volumeId: string
  readonly name: string
  readonly sizeMib: number
  readonly poolName: string
  readonly hostId: string | null
  /** True if no host except `hostId` can reach the volume. */
  readonly bound: boolean
  /** True if the volume is complete and no operation uses it. */
  readonly quiet: boolean
  /** True if another VM uses the volume as well. */
  readonly shared: boolean
  /** True if the VM may only read the volume. */
  readonly readOnly: boolean
}

const disksOfVm = statement<DiskToMove>(
  'vms.disksToMove',
  `SELECT o.id AS "volumeId", o.name, o.size_mib AS "sizeMib", o.pool_name AS "poolName", o.host_id AS "hostId", o.bound,
     k.want = 'present' AND o.want = 'present' AND o.state = 'ready' AND o.moving_to IS NULL AND o.grown_mib >= o.size_mib
       AND NOT EXISTS (SELECT FROM volume_snapshot s WHERE s.volume_id = o.id AND s.state = 'creating')
       AND NOT EXISTS (SELECT FROM volume c WHERE c.from_volume_id = o.id AND c.want = 'present' AND c.state = 'creating'
         AND c.arrived_by IS NULL)
       AND NOT EXISTS (SELECT FROM vm_snapshot s WHERE s.vm_id = k.vm_id AND s.want = 'present' AND s.state = 'creating') AS quiet,
     EXISTS (SELECT FROM vm_disk other WHERE other.volume_id = o.id AND other.vm_id <> k.vm_id) AS shared,
     k.read_only AS "readOnly"
   FROM vm_disk k JOIN volume o ON o.id = k.volume_id WHERE k.vm_id = $1 ORDER BY o.id`,
)
const beingKept = statement<{ is: boolean }>(
  'vms.beingKept',
  `SELECT EXISTS (SELECT FROM vm_snapshot s WHERE s.vm_id = $1 AND s.want = 'present' AND s.state = 'creating') AS is`,
)
const commitMigration = statement(
  'vms.commitMigration',
  `UPDATE migration SET state = 'clearing' WHERE id = $1 AND ended_at IS NULL AND state <> 'clearing' AND (want = 'move' OR method = 'live')`,
)
const haltMigration = statement(
  'vms.haltMigration',
  `UPDATE migration SET stopped_at = coalesce(stopped_at, now()) WHERE id = $1`,
)
const recordDowntime = statement(
  'vms.migrationDowntime',
  `UPDATE migration SET downtime_ms = coalesce(downtime_ms, round(extract(epoch FROM now() - stopped_at) * 1000)) WHERE id = $1`,
)
// Also assigns a VM that is being removed to the new host, which then removes it.
const moveVm = statement(
  'vms.moveWithVolumes',
  `WITH logged AS (${retainLog('v.id = $1')})
   UPDATE vm SET host_id = $2, generation = generation + 1, seen_generation = 0, seen_state = NULL,
     from_snapshot_id = NULL, from_renew = false, pinned_host_id = NULL,
     seen_count = seen_count + 1, seen_at_us = 0, healthy = false, endpoint_host = NULL, endpoint_port = NULL
   WHERE id = $1`,
)
// Volumes in shared pools stay where they are. Their generation is raised, because the VM on the new host counts as a
// new writer.
const handOverShared = statement(
  'vms.handOverShared',
  `WITH raised AS (
     UPDATE volume o SET attach_generation = o.attach_generation + 1, updated_at = now() FROM vm_disk k
     WHERE k.vm_id = $1 AND o.id = k.volume_id AND NOT o.bound AND NOT k.read_only RETURNING o.id, o.attach_generation
   )
   UPDATE vm_disk k SET generation = raised.attach_generation FROM raised WHERE k.vm_id = $1 AND k.volume_id = raised.id`,
)

export const disks = (sql: Sql, vmId: string) => sql.rows(disksOfVm, [vmId])
/** Counts the VM's volumes that only its host can reach. */
export const boundDisks = async (sql: Sql, vmId: string) => (await disks(sql, vmId)).filter(disk => disk.bound).length
/**
 * Commits the migration, after which it cannot be cancelled. Returns false when the migration has ended, or when a
 * stop-and-copy move was cancelled before this commit.
 */
export const commit = async (tx: Tx, id: string) => (await tx.run(commitMigration, [id])) === 1
/**
 * Returns whether a snapshot of the VM is being taken. The caller must hold the lock on the VM's row, which requests
 * for snapshots also take.
 */
export const isBeingKept = async (tx: Tx, vmId: string) => (await tx.one(beingKept, [vmId])).is
export const halt = (tx: Tx, id: string) => tx.run(haltMigration, [id])
export const ranAgain = (tx: Tx, id: string) => tx.run(recordDowntime, [id])
export async function move(tx: Tx, vmId: string, hostId: string): Promise<void> {
  await tx.run(handOverShared, [vmId])
  await tx.run(moveVm, [vmId, hostId])
}

/** How long copies may take, by what there is to copy. */
import { hours } from '../../lib/duration.ts'

/** No disk reads slower, whatever else it does. */
export const slowestBytesPerMs = (20 << 20) / 1_000
/** Each byte is read, written, and read back. */
const passes = 3

/**
 * SQL: what those volumes, with their snapshots, and those snapshots of VMs hold at most that move together.
 * @param id of the group, of the migration, or of a move of one volume alone
 */
export const groupBytes = (id: string) => `(
  (SELECT coalesce(sum(w.size_mib * 1048576::bigint + w.snapshot_bytes), 0) FROM volume_move y JOIN volume w ON w.id = y.volume_id
   WHERE y.group_id = ${id} OR y.migration_id = ${id} OR y.id = ${id})
  + (SELECT coalesce(sum(w.size_bytes), 0) FROM vm_snapshot_move y JOIN vm_snapshot w ON w.id = y.snapshot_id WHERE y.group_id = ${id})
)::float8`

/** Somebody is told of a copy that takes longer. It waits for all that moves with it, on the same disks. */
export const copyingAlertMs = ({ movedBytes }: { readonly movedBytes: number }): number =>
  hours(2) + (passes * movedBytes) / slowestBytesPerMs

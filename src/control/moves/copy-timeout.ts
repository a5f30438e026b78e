/** Time limits of copies, which depend on the number of bytes. */
import { hours } from '../../lib/duration.ts'

/** Assumed read rate of a slow disk under load. */
export const slowestBytesPerMs = (20 << 20) / 1_000
/** Number of passes over the data: it is read, written, and read back. */
const passes = 3

/**
 * SQL: upper bound of the bytes that move together: volumes, their snapshots, and VM snapshots.
 * @param id SQL for the id of the move group, of the migration, or of the move of a single volume
 */
export const groupBytes = (id: string) => `(
  (SELECT coalesce(sum(w.size_mib * 1048576::bigint + w.snapshot_bytes), 0) FROM volume_move y JOIN volume w ON w.id = y.volume_id
   WHERE y.group_id = ${id} OR y.migration_id = ${id} OR y.id = ${id})
  + (SELECT coalesce(sum(w.size_bytes), 0) FROM vm_snapshot_move y JOIN vm_snapshot w ON w.id = y.snapshot_id WHERE y.group_id = ${id})
)::float8`

/**
 * Time after which a copy raises an alert. It allows for everything that moves together, because that shares the same
 * disks.
 */
export const copyingAlertMs = ({ movedBytes }: { readonly movedBytes: number }): number =>
  hours(2) + (passes * movedBytes) / slowestBytesPerMs

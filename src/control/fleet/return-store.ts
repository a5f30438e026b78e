import { type Tx, statement } from '../../db/db.ts'
import { pokeMany } from '../../engine/runner.ts'

// Selects only the resources for which the host still has something to do: incomplete ones, ones to be deleted, and
// moves.
const waiting = statement<{ kind: string; id: string }>(
  'fleet.waitingForHost',
  `SELECT 'volume' AS kind, id FROM volume
   WHERE host_id = $1 AND (want = 'absent' OR state <> 'ready' OR grown_mib < size_mib)
   UNION ALL
   SELECT 'volume-snapshot', s.id FROM volume o JOIN volume_snapshot s ON s.volume_id = o.id
   WHERE o.host_id = $1 AND (s.want = 'absent' OR s.state = 'creating')
   UNION ALL
   SELECT 'vm-snapshot', id FROM vm_snapshot WHERE host_id = $1 AND (want = 'absent' OR state = 'creating')
   UNION ALL
   SELECT 'volume-move', id FROM volume_move WHERE source_host_id = $1 AND ended_at IS NULL
   UNION ALL
   SELECT 'volume-move', id FROM volume_move WHERE target_host_id = $1 AND ended_at IS NULL
   UNION ALL
   SELECT 'vm-snapshot-move', id FROM vm_snapshot_move WHERE source_host_id = $1 AND ended_at IS NULL
   UNION ALL
   SELECT 'vm-snapshot-move', id FROM vm_snapshot_move WHERE target_host_id = $1 AND ended_at IS NULL`,
)

/**
 * Pokes the workflows that wait for a host which is back or was removed. Without the poke, they would retry only after
 * minutes.
 */
export async function pokeWaitingFor(tx: Tx, hostId: string): Promise<void> {
  const kinds = Map.groupBy(await tx.rows(waiting, [hostId]), row => row.kind)
  for (const [kind, rows] of kinds)
    await pokeMany(
      tx,
      kind,
      rows.map(row => row.id),
    )
}

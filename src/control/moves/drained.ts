/** Moves VM snapshots off draining hosts, except those that move with a volume. */
import { type Tx, statement } from '../../db/db.ts'
import type { Sweep } from '../../engine/sweep.ts'
import { seconds } from '../../lib/duration.ts'
import { newId } from '../../lib/ids.ts'
import type { Deps } from '../base/deps.ts'
import { type HostRow, listHosts } from '../hosts/index.ts'
import { retainedBySnapshot, leftoversOf, takenElsewhere } from './retained.ts'
import { notTaken } from './co-moved-snapshots.ts'
import { startSnapshotMove } from './start.ts'
import { levelOf } from '../../lib/outage.ts'
import { withoutFailedTargetsFirst } from './failed-targets.ts'

interface LeftBehind {
  readonly id: string
  readonly name: string
  readonly appName: string
  readonly madeBy: string | null
  readonly hostId: string
  readonly leftovers: readonly string[]
  /**
   * Current host of the VM that the snapshot was taken of. The VM can be restored only if the snapshot is on the same
   * host.
   */
  readonly vmHostId: string | null
}

// Snapshots to move off draining hosts. A snapshot stays while its VM is on the same host, because the VM could not be
// restored otherwise. A snapshot whose move failed is skipped for ten minutes, and one that no other host can load is
// skipped. The number of concurrent moves is limited per host, as for volumes.
const leftBehind = statement<LeftBehind>(
  'moves.snapshotsLeftBehind',
  `SELECT left_behind.* FROM host h CROSS JOIN LATERAL (
     SELECT s.id, s.name, a.name AS "appName", s.made_by AS "madeBy", s.host_id AS "hostId", v.host_id AS "vmHostId",
       ${leftoversOf} AS leftovers
     FROM vm_snapshot s JOIN app a ON a.id = s.app_id LEFT JOIN vm v ON v.id = s.vm_id AND v.want <> 'absent'
     WHERE s.host_id = h.id AND s.kind = 'user' AND s.want = 'present' AND s.state = 'ready' AND s.moving_to IS NULL
       AND v.host_id IS DISTINCT FROM s.host_id
       AND NOT EXISTS (SELECT FROM volume o WHERE o.host_id = s.host_id AND ${retainedBySnapshot})
       AND NOT EXISTS (SELECT FROM vm_snapshot_move x WHERE x.snapshot_id = s.id AND x.state IN ('failed', 'cancelled')
         AND x.ended_at > now() - interval '10 minutes')
       AND ${takenElsewhere}
     ORDER BY s.size_bytes, s.id LIMIT 50) left_behind
   WHERE h.draining AND h.lost_at IS NULL AND h.removed_at IS NULL`,
)
const movesFrom = statement<{ count: number }>(
  'moves.snapshotsFrom',
  `SELECT count(*)::int AS count FROM vm_snapshot_move WHERE source_host_id = $1 AND ended_at IS NULL
     AND state IN ('preparing', 'copying', 'complete') AND migration_id IS NULL`,
)
const mostFromOneHost = 2

export const drainedSnapshots = (deps: Pick<Deps, 'db' | 'config' | 'log'>): Sweep => ({
  name: 'drained-snapshots',
  everyMs: seconds(10),
  async run() {
    const counts = { found: 0, moved: 0, refused: 0 }
    const all = await deps.db.rows(leftBehind)
    if (all.length === 0) return counts
    const hosts = await listHosts(deps.db, deps.config.hostTimeoutSeconds)
    for (const snapshot of all) {
      counts.found++
      try {
        if (await deps.db.tx(tx => moveAway(tx, hosts, snapshot))) counts.moved++
      } catch (error) {
        counts.refused++
        deps.log[levelOf(error)](
          { snapshotId: snapshot.id, err: error },
          'could not move a snapshot off a draining host in this round',
        )
      }
    }
    return counts
  },
})

/**
 * Starts a move of the snapshot to the first suitable host. Returns false when enough snapshots are already leaving the
 * host, when no other host can take this snapshot, or when it is in use.
 */
async function moveAway(tx: Tx, hosts: readonly HostRow[], snapshot: LeftBehind): Promise<boolean> {
  const source = hosts.find(host => host.id === snapshot.hostId)
  if (!source || (await tx.one(movesFrom, [source.id])).count >= mostFromOneHost) return false
  const nearest = hosts.toSorted((a, b) => Number(b.id === snapshot.vmHostId) - Number(a.id === snapshot.vmHostId))
  const target = targetOf(
    await withoutFailedTargetsFirst(tx, nearest, { snapshotIds: [snapshot.id] }),
    source,
    snapshot,
  )
  if (!target) return false
  const move = { snapshotId: snapshot.id, targetHostId: target.id, groupId: newId(), migrationId: null }
  return (await startSnapshotMove(tx, move)) !== undefined
}

/** Returns the first host that can take the snapshot. */
function targetOf(hosts: readonly HostRow[], source: HostRow, snapshot: LeftBehind): HostRow | undefined {
  const kept = [{ ...snapshot, busy: false, olderRuns: false, volumes: [] }]
  return hosts.find(
    host => host.id !== source.id && host.up && !host.cordoned && notTaken(kept, source, host) === undefined,
  )
}

/**
 * Finds the targets of recently failed moves. A host with enough free capacity may refuse again, for example because
 * its disk is full.
 */
import { type Sql, statement } from '../../db/db.ts'

const failuresOf = statement<{ hostId: string; at: Date }>(
  'moves.failures',
  `SELECT target_host_id AS "hostId", max(ended_at) AS at FROM (
     SELECT target_host_id, ended_at FROM volume_move WHERE volume_id = ANY($1::uuid[]) AND state = 'failed'
     UNION ALL
     SELECT target_host_id, ended_at FROM vm_snapshot_move WHERE snapshot_id = ANY($2::uuid[]) AND state = 'failed') tried
   WHERE ended_at > now() - interval '1 hour' GROUP BY target_host_id`,
)

/**
 * Sorts hosts to which a move of one of these volumes or snapshots failed within the last hour to the end, the latest
 * failure last. The other hosts keep their order.
 */
export async function withoutFailedTargetsFirst<Host extends { readonly id: string }>(
  sql: Sql,
  hosts: readonly Host[],
  {
    volumeIds = [],
    snapshotIds = [],
  }: { readonly volumeIds?: readonly string[]; readonly snapshotIds?: readonly string[] },
): Promise<readonly Host[]> {
  const failures = await sql.rows(failuresOf, [volumeIds, snapshotIds])
  const failedMs = new Map(failures.map(({ hostId, at }) => [hostId, at.getTime()]))
  return hosts.toSorted((a, b) => (failedMs.get(a.id) ?? 0) - (failedMs.get(b.id) ?? 0))
}

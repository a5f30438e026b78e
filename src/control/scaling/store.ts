import { type Db, type Sql, type Tx, statement } from '../../db/db.ts'
import type { Bed } from '../deployments/index.ts'

export interface Traffic {
  readonly appId: string
  /** Milliseconds since the app's last request. */
  readonly ageMs: number
}

// A request to an app in the state "idle" keeps the app awake. A separate SELECT locks the rows in id order
// (docs/engine.md), because PostgreSQL may execute an UPDATE in another order.
const recordTraffic = statement<{ id: string; idle: boolean }>(
  'fleet.recordTraffic',
  `WITH held AS (
     SELECT a.id, now() - t.age_ms * interval '1 millisecond' AS asked_at
     FROM unnest($1::uuid[], $2::float8[]) AS t(id, age_ms) JOIN app a ON a.id = t.id
     WHERE coalesce(a.last_request_at, '-infinity') < now() - t.age_ms * interval '1 millisecond'
     ORDER BY a.id FOR NO KEY UPDATE OF a
   )
   UPDATE app SET last_request_at = held.asked_at FROM held WHERE app.id = held.id
   RETURNING app.id, scale_state = 'idle' AND last_request_at > scale_changed_at AS idle`,
)
const fallIdle = statement<{ id: string; deploymentId: string }>(
  'fleet.fallIdle',
  `WITH held AS (
     SELECT a.id FROM app a JOIN deployment d ON d.id = a.active_deployment_id
     JOIN machine m ON m.kind = 'deployment' AND m.id = d.id AND m.phase = 'serving'
     WHERE d.want = 'running' AND a.want = 'live' AND a.min_replicas = 0
       AND a.scale_state = 'active' AND a.scale_changed_at < now() - make_interval(secs => $1)
       AND d.started_at < now() - make_interval(secs => $1)
       AND coalesce(a.last_request_at, '-infinity') < now() - make_interval(secs => $1)
     ORDER BY a.id FOR NO KEY UPDATE OF a
   )
   UPDATE app SET scale_state = 'idle', scale_changed_at = now() FROM held WHERE app.id = held.id
   RETURNING app.id, active_deployment_id AS "deploymentId"`,
)
export interface Woken {
  readonly deploymentId: string | null
  readonly state: 'active' | 'warming_up'
}
const wake = statement<Woken>(
  'fleet.wake',
  `UPDATE app SET scale_changed_at = now(), last_request_at = now(),
     scale_state = CASE scale_state WHEN 'idle' THEN 'active' ELSE 'warming_up' END
   WHERE id = $1 AND want = 'live' AND scale_state IN ('idle', 'scaled_to_zero')
     -- An exhausted budget prevents the wake-up.
     AND NOT EXISTS (SELECT FROM project p WHERE p.id = app.project_id AND p.capped_at IS NOT NULL)
   RETURNING active_deployment_id AS "deploymentId", scale_state AS state`,
)
const holdActive = statement<{ id: string }>(
  'fleet.holdActive',
  `SELECT d.id FROM app a JOIN deployment d ON d.id = a.active_deployment_id WHERE a.id = $1 FOR NO KEY UPDATE OF d`,
)
// $2: seconds without a heartbeat after which a host is not used. This is a separate statement after `holdActive`,
// because a statement that waits for a lock reads all other rows as they were before the wait.
const bedOfApp = statement<Bed>(
  'fleet.bed',
  `SELECT d.project_id AS "projectId", d.app_id AS "appId", d.id AS "deploymentId", d.vcpus, d.memory_mib AS "memoryMib",
     d.disk_mib AS "diskMib", p.ipv6_prefix AS "ipv6Prefix", s.id AS "snapshotId", h.id AS "hostId", s.hypervisor
   FROM app a JOIN deployment d ON d.id = a.active_deployment_id JOIN project p ON p.id = d.project_id
   JOIN vm_snapshot s ON s.deployment_id = d.id AND s.kind = 'sleep' AND s.want = 'present' AND s.state = 'ready' AND s.moving_to IS NULL
   JOIN host h ON h.id = s.host_id AND h.lost_at IS NULL AND h.removed_at IS NULL AND NOT h.cordoned
     AND h.last_seen_at > now() - make_interval(secs => $2)
     AND EXISTS (SELECT FROM jsonb_array_elements(h.hypervisors) offer
                 WHERE offer->>'name' = s.hypervisor AND (offer->>'available')::boolean)
   WHERE a.id = $1 AND a.scale_state = 'warming_up' AND d.want = 'running'
     -- Another VM may still be running.
     AND a.strategy = 'rolling'
     -- VMs with volumes are placed together with their volumes.
     AND NOT EXISTS (SELECT FROM volume_attachment t WHERE t.app_id = a.id AND t.want = 'attached')`,
)

export interface ScaledApp {
  readonly id: string
  readonly projectId: string
  readonly deploymentId: string
  readonly desired: number
  readonly min: number
  readonly max: number
  readonly cpuThreshold: number
  readonly memThreshold: number
  readonly scaledAt: Date | null
  readonly memoryMib: number
  readonly vmIds: readonly string[]
}
const scaledApps = statement<ScaledApp>(
  'fleet.scaledApps',
  `SELECT a.id, a.project_id AS "projectId", d.id AS "deploymentId", a.desired_replicas AS desired, a.min_replicas AS min,
     a.max_replicas AS max, a.cpu_threshold AS "cpuThreshold", a.mem_threshold AS "memThreshold",
     a.scaled_at AS "scaledAt", d.memory_mib AS "memoryMib", array_agg(v.id::text) AS "vmIds"
   FROM app a JOIN deployment d ON d.id = a.active_deployment_id
   JOIN machine m ON m.kind = 'deployment' AND m.id = d.id AND m.phase = 'serving'
   JOIN vm v ON v.deployment_id = d.id AND v.run_id IS NULL AND v.want = 'running' AND v.healthy
   WHERE a.autoscaling_enabled AND a.want = 'live' AND a.scale_state = 'active' AND d.want = 'running'
   GROUP BY a.id, d.id`,
)
const setDesired = statement(
  'fleet.setDesired',
  `UPDATE app SET desired_replicas = $3, scaled_at = now()
   WHERE id = $1 AND desired_replicas = $2 AND autoscaling_enabled AND want = 'live'
     AND $3 BETWEEN greatest(min_replicas, 1) AND max_replicas`,
)

/** Records the times of requests. Returns the ids of apps that were about to scale to zero, in id order. */
export const recordRequests = async (tx: Tx, traffic: readonly Traffic[]) =>
  (await tx.rows(recordTraffic, [traffic.map(t => t.appId), traffic.map(t => t.ageMs)]))
    .filter(app => app.idle)
    .map(app => app.id)
    .toSorted()
/** Marks apps without recent requests as idle and returns them in id order. */
export const idle = async (tx: Tx, idleSeconds: number) =>
  (await tx.rows(fallIdle, [idleSeconds])).toSorted((a, b) => (a.id < b.id ? -1 : 1))
/** Wakes the app. Returns undefined if the app is not asleep or its project's budget is used up. */
export const wakeUp = (tx: Tx, appId: string) => tx.maybe(wake, [appId])
/**
 * Wakes the app, locks its deployment, and returns the snapshot from which a VM can start at once (`bed`). If there is
 * no such snapshot, the workflows start the VM.
 */
export async function wakeUpWithBed(
  tx: Tx,
  appId: string,
  hostTimeoutSeconds: number,
): Promise<(Woken & { readonly bed: Bed | undefined }) | undefined> {
  // The statements are sent together and run in this order.
  const [woken, , bed] = await Promise.all([
    wakeUp(tx, appId),
    tx.rows(holdActive, [appId]),
    tx.maybe(bedOfApp, [appId, hostTimeoutSeconds]),
  ])
  return woken && { ...woken, bed }
}
export const scaled = (sql: Sql | Db) => sql.rows(scaledApps)
/** Sets the desired number of replicas. Returns false if the number is no longer `from`. */
export const scale = async (tx: Tx, appId: string, from: number, to: number) =>
  (await tx.run(setDesired, [appId, from, to])) === 1

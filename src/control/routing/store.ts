import type { Backend, CanaryRoute, LeavingVm, Route } from '../../contract/gateway.ts'
import { type Db, type Tx, statement } from '../../db/db.ts'

/** SQL for the deployments of the app `a` that are being rolled out and are newer than its active deployment. */
const laterRollouts = `deployment n JOIN machine nm ON nm.kind = 'deployment' AND nm.id = n.id AND nm.phase = 'rolling'
  WHERE n.app_id = a.id AND n.outcome IS NULL AND n.want = 'running'
    AND n.rollout > coalesce((SELECT rollout FROM deployment WHERE id = a.active_deployment_id), 0)`

/** SQL that renders a VM as a backend of a route, in JSON. */
const backendOf = (vm: string) =>
  `jsonb_strip_nulls(jsonb_build_object('vmId', ${vm}.id, 'host', ${vm}.endpoint_host, 'port', ${vm}.endpoint_port,
     'resetsClosed', CASE WHEN ${vm}.hypervisor = 'gvisor' THEN true END))`

/**
 * SQL condition that is true if gateways hold the requests to the VM of the migration `g`: until the VM runs on its new
 * host, or the migration ends.
 */
const isHeld = `g.ended_at IS NULL AND g.held_at IS NOT NULL AND g.state IN ('copying', 'switching')`

// Computes the route of an app and writes the row only if it differs, in one statement. A NOTIFY then wakes the
// publishers.
const refreshRoute = statement<{ hostname: string }>(
  'routing.refresh',
  `WITH wanted AS (
     SELECT a.hostname, a.project_id, a.id AS app_id, a.drain_timeout,
            coalesce(jsonb_agg(${backendOf('v')}
                               ORDER BY v.id) FILTER (WHERE v.id IS NOT NULL), '[]'::jsonb) AS backends,
            (SELECT d.port FROM deployment d WHERE d.id = a.active_deployment_id) AS app_port,
            a.want, a.scale_state, EXISTS (
              SELECT FROM migration g JOIN vm moving ON moving.id = g.vm_id AND moving.want = 'running'
              WHERE g.deployment_id = a.active_deployment_id AND g.ended_at IS NULL
                AND g.state IN ('copying', 'switching', 'clearing')
            ) AS moves, a.strategy = 'one-at-a-time' AND a.active_deployment_id IS NOT NULL AND EXISTS (SELECT FROM ${laterRollouts}) AS rolls,
            (SELECT coalesce(jsonb_agg(jsonb_build_object('vmId', g.vm_id, 'moveId', g.id) ORDER BY g.id), '[]'::jsonb)
             FROM migration g WHERE g.deployment_id = a.active_deployment_id AND ${isHeld}) AS leaving,
            (SELECT jsonb_build_object('deploymentId', c.id, 'percent', c.canary->'percent', 'backends',
                      jsonb_agg(${backendOf('n')} ORDER BY n.id))
             FROM (SELECT id, canary FROM deployment WHERE app_id = a.id AND canary_state = 'running' AND outcome IS NULL
                   AND want = 'running' AND id IS DISTINCT FROM a.active_deployment_id ORDER BY rollout DESC LIMIT 1) c
             JOIN vm n ON n.deployment_id = c.id AND n.run_id IS NULL AND n.healthy AND n.want = 'running'
               AND n.endpoint_host IS NOT NULL AND NOT EXISTS (SELECT FROM migration g WHERE g.vm_id = n.id AND ${isHeld})
             GROUP BY c.id, c.canary) AS canary
     FROM app a
     LEFT JOIN vm v ON v.app_id = a.id AND (v.deployment_id = a.active_deployment_id OR (a.strategy = 'one-at-a-time' AND v.deployment_id =
                     -- VMs of the rollout serve beside those of the active version, which end one after the other.
                     (SELECT n.id FROM ${laterRollouts} ORDER BY n.rollout DESC LIMIT 1))) AND v.run_id IS NULL AND v.healthy AND v.want = 'running'
                   AND v.endpoint_host IS NOT NULL AND NOT EXISTS (SELECT FROM migration g WHERE g.vm_id = v.id AND ${isHeld})
     -- Platform apps and workers have no route.
     WHERE a.id = $1 AND a.owner = 'user' AND a.kind = 'web' GROUP BY a.id
   ), described AS (
     SELECT hostname, project_id, app_id, drain_timeout, leaving, app_port,
            CASE WHEN want <> 'deleted' AND scale_state = 'active' AND backends <> '[]'::jsonb THEN canary END AS canary,
            CASE WHEN want = 'deleted' OR scale_state <> 'active' THEN '[]'::jsonb ELSE backends END AS backends,
            CASE WHEN want = 'deleted' THEN 'gone'
                 -- Includes the state "idle", in which a request keeps the app awake; later it wakes the app.
                 WHEN scale_state <> 'active' THEN 'sleeping'
                 WHEN backends <> '[]'::jsonb THEN 'live'
                 -- The only VM is between two hosts for a moment: gateways hold requests until it runs again.
                 WHEN moves THEN 'sleeping'
                 -- The old VM has ended, and the new one starts.
                 WHEN rolls THEN 'sleeping'
                 ELSE 'down' END AS state
     FROM wanted
   ), host AS (
     SELECT hostname AS name FROM described
     UNION ALL SELECT name FROM domain WHERE app_id = $1 AND state = 'verified'
   ), named AS (
     SELECT name, NULL::int AS port FROM host
     UNION ALL SELECT 'tls/' || host.name, t.port FROM host, tls_service t WHERE t.app_id = $1
     UNION ALL SELECT 'tcp/' || public_port, port FROM tcp_service WHERE app_id = $1
   )
   INSERT INTO route AS r (hostname, project_id, app_id, state, backends, drain_seconds, leaving, canary)
   SELECT name, project_id, app_id, state,
          -- The app's own port has the endpoint that the host reports, which may use another port.
          CASE WHEN port IS NULL OR port = app_port THEN backends
               ELSE (SELECT coalesce(jsonb_agg(b || jsonb_build_object('port', port) ORDER BY n), '[]'::jsonb)
                     FROM jsonb_array_elements(backends) WITH ORDINALITY AS e (b, n)) END,
          -- TCP services lead to the active version only.
          drain_timeout, leaving, CASE WHEN port IS NULL THEN canary END FROM described, named
   ON CONFLICT (hostname) DO UPDATE
     SET project_id = excluded.project_id, app_id = excluded.app_id, state = excluded.state,
         backends = excluded.backends, drain_seconds = excluded.drain_seconds,
         leaving = excluded.leaving, canary = excluded.canary,
         version = nextval('route_version'), xid = pg_current_xact_id(), changed_at = now()
     WHERE (r.app_id, r.state, r.backends, r.drain_seconds, r.leaving, r.canary)
           IS DISTINCT FROM (excluded.app_id, excluded.state, excluded.backends, excluded.drain_seconds, excluded.leaving, excluded.canary)
       -- The old app must not change a name that a new app has taken over.
       AND (r.app_id = excluded.app_id OR r.state = 'gone')
   RETURNING hostname`,
)
const hasTls = `EXISTS (SELECT FROM tls_service WHERE app_id = $1)`
// Retires the app's routes for hostnames that no longer belong to it.
const retireRoutes = statement<{ hostname: string }>(
  'routing.retire',
  `UPDATE route r SET state = 'gone', backends = '[]', leaving = '[]', canary = NULL, version = nextval('route_version'), xid = pg_current_xact_id(),
     changed_at = now()
   WHERE r.app_id = $1 AND r.state <> 'gone'
     AND NOT EXISTS (SELECT FROM app a WHERE a.id = $1 AND (a.hostname = r.hostname OR ('tls/' || a.hostname = r.hostname AND ${hasTls})))
     AND NOT EXISTS (SELECT FROM domain d WHERE d.app_id = $1 AND d.state = 'verified'
                     AND (d.name = r.hostname OR ('tls/' || d.name = r.hostname AND ${hasTls})))
     AND NOT EXISTS (SELECT FROM tcp_service s WHERE s.app_id = $1 AND 'tcp/' || s.public_port = r.hostname)
   RETURNING hostname`,
)
// Serializes refreshes of one app. Without this lock, a refresh that starts while another transaction switches the
// route would wait for the commit of the switch, and then overwrite the route with a state computed before it: a live
// app would have a route that is down.
const lockRoute = statement('routing.lock', `SELECT pg_advisory_xact_lock(hashtextextended('route ' || $1::text, 0))`)
const notifyRoute = statement('routing.notify', `SELECT pg_notify('route', '')`)

/**
 * Updates the routes of an app (its hostname, verified domains and TCP services) to match its VMs, in the transaction
 * that changed the VMs. Call it after the changes and as late as possible, because refreshes of one app wait for each
 * other's commits.
 */
export async function refresh(tx: Tx, appId: string): Promise<void> {
  const [, refreshed, retired] = await Promise.all([
    tx.rows(lockRoute, [appId]),
    tx.rows(refreshRoute, [appId]),
    tx.rows(retireRoutes, [appId]),
  ])
  if (refreshed.length + retired.length > 0) tx.atCommit(notifyRoute, [])
}

interface RouteRow {
  readonly hostname: string
  readonly projectId: string
  readonly appId: string
  readonly state: Route['state']
  readonly backends: readonly Backend[]
  readonly drainSeconds: number
  readonly leaving: readonly LeavingVm[]
  readonly canary: CanaryRoute | null
  readonly version: number
}
const routeColumns = `hostname, project_id AS "projectId", app_id AS "appId", state, backends,
  drain_seconds AS "drainSeconds", leaving, canary, version`

// Selects rows whose transactions may not yet have been visible to a reader that read up to the version `$1`. Some rows
// are returned twice; none is missed.
const routesSince = statement<RouteRow>(
  'routing.since',
  `SELECT ${routeColumns} FROM route WHERE xid >= ($1::text)::xid8 AND (state <> 'gone' OR $1::text <> '0')`,
)
const horizon = statement<{ horizon: string }>(
  'routing.horizon',
  `SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS horizon`,
)
const forgetGone = statement('routing.forgetGone', `DELETE FROM route WHERE state = 'gone' AND changed_at < $1`)

/**
 * Returns the routes that changed since an earlier result's `version` (0: all), and the version to continue from. The
 * version is the id of the oldest running transaction, read before the rows. A row that is committed between the two
 * reads is therefore returned twice, but never missed.
 */
export async function since(db: Db, after: number): Promise<{ version: number; routes: Route[] }> {
  const next = await db.one(horizon)
  const rows = await db.rows(routesSince, [String(after)])
  const routes = rows.map(({ leaving, canary, ...row }) => ({
    ...row,
    backends: [...row.backends],
    ...(leaving.length > 0 ? { leaving: [...leaving] } : {}),
    ...(canary ? { canary } : {}),
  }))
  return { version: Number(next.horizon), routes }
}

export const forgetGoneBefore = (db: Db, before: Date) => db.run(forgetGone, [before])

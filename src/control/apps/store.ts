import { type Db, type Sql, type Tx, statement } from '../../db/db.ts'
import type { BuildSettings } from '../builds/index.ts'
import type { CanarySettings, RestartSettings, Strategy } from '../deployments/index.ts'
import type { HostSettings } from '../scheduler/wishes.ts'
import type { WrittenPage } from '../http/pages.ts'
import type { Page } from '../http/paging.ts'

export interface App {
  readonly id: string
  readonly projectId: string
  readonly name: string
  readonly gitUrl: string
  /** Branch for pushes and builds; empty: the repository's default branch. */
  readonly gitBranch: string
  readonly gitSubmodules: boolean
  readonly port: number
  readonly kind: 'web' | 'worker'
  /** The app whose environment the deployments of this worker get; null: the worker's own environment. */
  readonly envOf: string | null
  /** Replaces the image's command; empty: the image's command is used. */
  readonly command: readonly string[]
  /** Replaces the image's arguments but not its entrypoint; empty: the image's arguments are used. */
  readonly arguments: readonly string[]
  /** Name of the stack that the app belongs to. */
  readonly stack: string | null
  readonly healthCheckPath: string
  /** Command that runs in a separate VM before a new version serves. */
  readonly releaseCommand: readonly string[] | null
  readonly drainTimeout: number
  /** Canary settings; null: a healthy new version gets all requests at once. */
  readonly canary: CanarySettings | null
  /** How a new version of the app replaces the active one. */
  readonly strategy: Strategy
  /** Host labels that the app requires and prefers; null: any host. */
  readonly hosts: HostSettings | null
  /** Restart settings; null: programs are always restarted, as often as the installation allows. */
  readonly restart: RestartSettings | null
  readonly build: BuildSettings | null
  readonly desiredReplicas: number
  readonly minReplicas: number
  readonly maxReplicas: number
  readonly autoscalingEnabled: boolean
  readonly cpuThreshold: number
  readonly memThreshold: number
  readonly scaleState: 'active' | 'idle' | 'scaled_to_zero' | 'warming_up'
  readonly activeDeploymentId: string | null
  readonly hostname: string
  readonly scmInstallationId: number | null
  readonly scmRepoFullName: string | null
  readonly scmRepoId: number | null
  /** Webhook secret, sealed with purpose `app.webhook`. */
  readonly scmWebhookSecret: Buffer
  readonly want: 'live' | 'deleted'
  /** Owner of the app. Users list, count and address only apps with owner `user`. */
  readonly owner: 'user' | 'database'
  /**
   * Id of the workflow that owns the app and is poked when the app changes; `owner` is its kind. Null for apps of
   * users.
   */
  readonly ownerId: string | null
  readonly createdAt: Date
  /** Error of the newest deployment, if it failed and no deployment is active. */
  readonly failure: string | null
  /** When a setting that takes effect with the next deployment was last changed. */
  readonly settingsChangedAt: Date | null
}

// Returns SQL for a column of the app's newest deployment. The deployment is read (from the index) only if the app has
// no active deployment.
const newest = (column: string) => `CASE WHEN app.active_deployment_id IS NULL THEN (
    SELECT ${column} FROM deployment d WHERE d.app_id = app.id AND d.want <> 'deleted' ORDER BY d.id DESC LIMIT 1) END`
const failure = newest(`CASE WHEN d.outcome = 'failed' THEN left(coalesce(d.error_message, ''), 1000) END`)
const columns = `id, project_id AS "projectId", name, git_url AS "gitUrl", git_branch AS "gitBranch", git_submodules AS "gitSubmodules", port, kind, (SELECT name FROM app main WHERE main.id = app.env_of) AS "envOf", command, arguments, stack, health_check_path AS "healthCheckPath",
  release_command AS "releaseCommand", drain_timeout AS "drainTimeout", canary, strategy, hosts, restart, build, desired_replicas AS "desiredReplicas", min_replicas AS "minReplicas",
  max_replicas AS "maxReplicas", autoscaling_enabled AS "autoscalingEnabled", cpu_threshold AS "cpuThreshold",
  mem_threshold AS "memThreshold", scale_state AS "scaleState", active_deployment_id AS "activeDeploymentId", hostname,
  scm_installation_id AS "scmInstallationId", scm_repo_full_name AS "scmRepoFullName", scm_repo_id AS "scmRepoId",
  scm_webhook_secret AS "scmWebhookSecret", want, owner, owner_id AS "ownerId", created_at AS "createdAt",
  settings_changed_at AS "settingsChangedAt", ${failure} AS failure`

const pageOfApps = `FROM app WHERE project_id = $1 AND want = 'live' AND owner = 'user' AND id < $5::uuid
  ORDER BY id DESC OFFSET $3`
// PostgreSQL renders the page as JSON in the API's format (like `appView`; a test compares them), because parsing and
// rendering a hundred rows in this process took three times as long. The rendering costs seven times as much as the
// query of the mark, so it is skipped if mark $4 of the cached page is still current. The mark covers each row's xmin
// (the transaction that wrote it), the newest deployment of apps without an active one, and the server's start time:
// transaction ids can repeat only after a restore from a backup, which starts the server again.
const listApps = statement<WrittenPage>(
  'apps.list',
  `SELECT mark, CASE WHEN mark = $4::text THEN NULL ELSE coalesce((SELECT json_agg(listed)::text FROM (
       SELECT id, name, git_url, git_branch, git_submodules, port, kind,
         (SELECT name FROM app main WHERE main.id = app.env_of) AS env_of, command, arguments, stack, health_check_path, release_command, drain_timeout, canary, strategy,
         coalesce(hosts, '{"require": {}, "prefer": {}}') AS hosts,
         coalesce(restart, '{"policy": "always", "max_restarts": null}') AS restart,
         coalesce(build, '{"dockerfile": "", "args": {}, "env": [], "secrets": []}') AS build, desired_replicas, min_replicas,
         max_replicas, autoscaling_enabled, cpu_threshold, mem_threshold, scale_state,
         to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS created_at,
         to_char(settings_changed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS settings_changed_at, active_deployment_id, ${failure} AS failure,
         CASE WHEN kind = 'web' THEN hostname END AS hostname, CASE WHEN kind = 'web' THEN $6::text || hostname || $7::text END AS url, scm_installation_id,
         scm_repo_full_name, scm_repo_id, NULL AS scm_webhook_secret
       ${pageOfApps} LIMIT $2::bigint) listed), '[]') END AS page, next
   FROM (SELECT pg_postmaster_start_time() || ' ' || coalesce(encode(sha256(string_agg(id::text || xmin::text || coalesce(newest, ''), ',')::bytea), 'hex'), '') AS mark,
       CASE WHEN count(*) > $2::bigint THEN (array_agg(id))[$2::int] END AS next
     FROM (SELECT id, xmin, ${newest('d.xmin::text')} AS newest ${pageOfApps} LIMIT $2::bigint + 1) seen) marked`,
)
const appsOfProject = statement<App>(
  'apps.ofProject',
  `SELECT ${columns} FROM app WHERE project_id = $1 AND want = 'live' AND owner = 'user'`,
)
const appByName = statement<App>(
  'apps.byName',
  `SELECT ${columns} FROM app WHERE project_id = $1 AND name = $2 AND want = 'live' AND owner = 'user'`,
)
const lockApp = statement<App>(
  'apps.lock',
  `SELECT ${columns} FROM app WHERE project_id = $1 AND name = $2 AND want = 'live' AND owner = 'user' FOR UPDATE`,
)
const appById = statement<App>('apps.byId', `SELECT ${columns} FROM app WHERE id = $1`)
const countApps = statement<{ count: number }>(
  'apps.count',
  `SELECT count(*)::int AS count FROM app WHERE project_id = $1 AND want = 'live' AND owner = 'user'`,
)
const insertApp = statement<App>(
  'apps.insert',
  `INSERT INTO app (id, project_id, name, git_url, port, health_check_path, drain_timeout, desired_replicas, min_replicas,
     max_replicas, autoscaling_enabled, cpu_threshold, mem_threshold, hostname, scm_installation_id, scm_repo_full_name,
     scm_repo_id, scm_webhook_secret, owner, owner_id, git_branch, git_submodules, release_command, kind, command, arguments, stack, canary, restart, build, strategy, hosts, env_of)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32,
     (SELECT id FROM app WHERE project_id = $2 AND name = $33 AND want = 'live' AND owner = 'user' AND kind = 'web'))
   RETURNING ${columns}`,
)
const updateApp = statement<App>(
  'apps.update',
  `UPDATE app SET port = $2, git_url = $3, health_check_path = $4, drain_timeout = $5, scm_installation_id = $6,
     scm_repo_full_name = $7, scm_repo_id = $8, git_branch = $9, git_submodules = $10, release_command = $11, command = $12, arguments = $13, canary = $14, restart = $15, build = $16, strategy = $17, hosts = $18,
     settings_changed_at = CASE WHEN (port, git_url, health_check_path, git_branch, git_submodules, release_command, command, arguments, restart, build, hosts)
         IS DISTINCT FROM ($2, $3, $4, $9, $10, $11, $12, $13, $15, $16, $18)
       THEN clock_timestamp() ELSE settings_changed_at END
   WHERE id = $1
   RETURNING ${columns}`,
)
// Uses clock_timestamp(): now() is the start of this transaction, which may be before the creation of a deployment that
// locked the app first and still got the old settings.
const touchSettings = statement(
  'apps.settingsChanged',
  `UPDATE app SET settings_changed_at = clock_timestamp() WHERE id = $1`,
)
const setScale = statement<App>(
  'apps.setScale',
  `UPDATE app SET autoscaling_enabled = $2, cpu_threshold = $3, mem_threshold = $4, desired_replicas = $5,
     min_replicas = $6, max_replicas = $7 WHERE id = $1 RETURNING ${columns}`,
)
const markDeleted = statement(
  'apps.markDeleted',
  `UPDATE app SET want = 'deleted', active_deployment_id = NULL WHERE id = $1 AND want = 'live'`,
)
const deleteApp = statement(
  'apps.delete',
  `WITH logs AS (UPDATE vm_log SET app_gone = true WHERE app_id = $1) DELETE FROM app WHERE id = $1`,
)
const deploymentIds = statement<{ id: string }>('apps.deploymentIds', `SELECT id FROM deployment WHERE app_id = $1`)
const liveIds = statement<{ id: string }>('apps.liveIds', `SELECT id FROM app WHERE project_id = $1 AND want = 'live'`)
const workerIds = statement<{ id: string }>(
  'apps.workers',
  `SELECT id FROM app WHERE env_of = $1 AND want = 'live' ORDER BY id`,
)
const remainingApps = statement<{ count: number }>(
  'apps.remaining',
  `SELECT count(*)::int AS count FROM app WHERE project_id = $1`,
)

export type NewApp = Omit<
  App,
  'failure' | 'scaleState' | 'activeDeploymentId' | 'want' | 'createdAt' | 'settingsChangedAt'
>

/**
 * Returns a page of apps in the API's format, newest first.
 * @param mark mark of the cached page, or null if no page is cached
 */
export const list = (
  db: Db,
  projectId: string,
  { limit, offset, around }: Pick<Page, 'limit' | 'offset'> & { readonly around: readonly [string, string] },
  before: string,
  mark: string | null,
) => db.one(listApps, [projectId, limit, offset, mark, before, ...around])
export const all = (db: Db, projectId: string) => db.rows(appsOfProject, [projectId])
export const byName = (sql: Sql, projectId: string, name: string) => sql.maybe(appByName, [projectId, name])
/** Locks the app's row until the transaction ends. */
export const lock = (tx: Tx, projectId: string, name: string) => tx.maybe(lockApp, [projectId, name])
export const byId = (sql: Sql, id: string) => sql.maybe(appById, [id])
export const count = async (tx: Tx, projectId: string) => (await tx.one(countApps, [projectId])).count
const jsonText = (settings: CanarySettings | RestartSettings | BuildSettings | HostSettings | null) =>
  settings && JSON.stringify(settings)
export const insert = (tx: Tx, app: NewApp) =>
  tx.one(insertApp, [
    app.id,
    app.projectId,
    app.name,
    app.gitUrl,
    app.port,
    app.healthCheckPath,
    app.drainTimeout,
    app.desiredReplicas,
    app.minReplicas,
    app.maxReplicas,
    app.autoscalingEnabled,
    app.cpuThreshold,
    app.memThreshold,
    app.hostname,
    app.scmInstallationId,
    app.scmRepoFullName,
    app.scmRepoId,
    app.scmWebhookSecret,
    app.owner,
    app.ownerId,
    app.gitBranch,
    app.gitSubmodules,
    app.releaseCommand,
    app.kind,
    app.command,
    app.arguments,
    app.stack,
    jsonText(app.canary),
    jsonText(app.restart),
    jsonText(app.build),
    app.strategy,
    jsonText(app.hosts),
    app.envOf,
  ])
type Changeable = Pick<
  App,
  | (
      | 'port'
      | 'command'
      | 'arguments'
      | 'gitUrl'
      | 'gitBranch'
      | 'gitSubmodules'
      | 'healthCheckPath'
      | 'releaseCommand'
      | 'drainTimeout'
      | 'canary'
      | 'strategy'
      | 'hosts'
      | 'restart'
      | 'build'
    )
  | ('scmInstallationId' | 'scmRepoFullName' | 'scmRepoId')
>
/** Changes the app's settings. Fields that are undefined in `to` keep their value. */
export const change = (tx: Tx, app: App, to: { readonly [K in keyof Changeable]: Changeable[K] | undefined }) =>
  tx.one(updateApp, [
    app.id,
    to.port ?? app.port,
    to.gitUrl ?? app.gitUrl,
    to.healthCheckPath ?? app.healthCheckPath,
    to.drainTimeout ?? app.drainTimeout,
    to.scmInstallationId ?? app.scmInstallationId,
    to.scmRepoFullName ?? app.scmRepoFullName,
    to.scmRepoId ?? app.scmRepoId,
    to.gitBranch ?? app.gitBranch,
    to.gitSubmodules ?? app.gitSubmodules,
    to.releaseCommand === undefined ? app.releaseCommand : to.releaseCommand,
    to.command ?? app.command,
    to.arguments ?? app.arguments,
    jsonText(to.canary === undefined ? app.canary : to.canary),
    jsonText(to.restart === undefined ? app.restart : to.restart),
    jsonText(to.build === undefined ? app.build : to.build),
    to.strategy ?? app.strategy,
    jsonText(to.hosts === undefined ? app.hosts : to.hosts),
  ])
/** Records that the settings for the next deployment changed. The app must be locked. */
export const settingsChanged = (tx: Tx, id: string) => tx.run(touchSettings, [id])
export type Scale = Pick<
  App,
  'autoscalingEnabled' | 'cpuThreshold' | 'memThreshold' | 'desiredReplicas' | 'minReplicas' | 'maxReplicas'
>
export const changeScale = (tx: Tx, id: string, s: Scale) =>
  tx.one(setScale, [
    id,
    s.autoscalingEnabled,
    s.cpuThreshold,
    s.memThreshold,
    s.desiredReplicas,
    s.minReplicas,
    s.maxReplicas,
  ])
/** Marks the app for deletion. Returns false when it is already marked. */
export const startDeleting = async (tx: Tx, id: string) => (await tx.run(markDeleted, [id])) === 1
export const remove = (tx: Tx, id: string) => tx.run(deleteApp, [id])
export const deployments = async (sql: Sql, appId: string) =>
  (await sql.rows(deploymentIds, [appId])).map(row => row.id)
export const idsInProject = async (sql: Sql, projectId: string) =>
  (await sql.rows(liveIds, [projectId])).map(row => row.id)
/** Returns the ids of the workers that get this app's environment. */
export const workersOf = async (sql: Sql, id: string) => (await sql.rows(workerIds, [id])).map(row => row.id)
export const remaining = async (sql: Sql, projectId: string) => (await sql.one(remainingApps, [projectId])).count

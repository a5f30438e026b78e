import type { BuildObserved, HypervisorName } from '../../contract/agent.ts'
import { type Sql, type Tx, statement } from '../../db/db.ts'
import type { BuildSettings } from './settings.ts'

export type BuildState =
  | 'queued'
  | 'fetching'
  | 'building'
  | 'pushing'
  | 'succeeded'
  | 'failed'
  | 'cancelled'
  | 'superseded'

export interface Build {
  readonly id: string
  readonly projectId: string
  readonly appId: string
  readonly deploymentId: string
  readonly gitUrl: string
  /** Branch to build; empty: the repository's default branch. */
  readonly gitBranch: string
  /** Hash of the commit to build; empty: the head of the branch. */
  readonly gitCommit: string
  readonly gitSubmodules: boolean
  /** Build settings of the app at the time when the build was requested. */
  readonly settings: BuildSettings | null
  readonly scmInstallationId: number | null
  readonly scmRepoFullName: string | null
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
  readonly state: BuildState
  readonly hostId: string | null
  readonly hypervisor: HypervisorName | null
  /** True while resources on the host are reserved for the build. */
  readonly holds: boolean
  readonly generation: number
  readonly hostsLost: number
  readonly startedAt: Date | null
  /** True if the build's deployment has ended or is ending, so that nothing needs the image. */
  readonly isUnwanted: boolean
  readonly hostLost: boolean
  readonly hostRemoved: boolean
}

const buildById = statement<Build>(
  'builds.byId',
  `SELECT b.id, b.project_id AS "projectId", b.app_id AS "appId", b.deployment_id AS "deploymentId", b.git_url AS "gitUrl",
     b.git_branch AS "gitBranch", b.git_commit AS "gitCommit", b.scm_installation_id AS "scmInstallationId",
     b.git_submodules AS "gitSubmodules", b.settings,
     a.scm_repo_full_name AS "scmRepoFullName", b.vcpus, b.memory_mib AS "memoryMib", b.disk_mib AS "diskMib", b.state,
     b.host_id AS "hostId", b.hypervisor, b.holds, b.generation, b.hosts_lost AS "hostsLost", b.started_at AS "startedAt",
     d.id IS NULL OR d.want IN ('stopped', 'deleted') OR d.outcome IS NOT NULL OR a.want = 'deleted' AS "isUnwanted",
     h.lost_at IS NOT NULL AS "hostLost", h.removed_at IS NOT NULL AS "hostRemoved"
   FROM build b JOIN app a ON a.id = b.app_id LEFT JOIN deployment d ON d.id = b.deployment_id
     LEFT JOIN host h ON h.id = b.host_id
   WHERE b.id = $1`,
)
const insertBuild = statement(
  'builds.insert',
  `INSERT INTO build (id, project_id, app_id, deployment_id, git_url, git_branch, git_commit, scm_installation_id, vcpus,
     memory_mib, disk_mib, git_submodules, settings)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, (SELECT build FROM app WHERE id = $3))`,
)
const runningOfApp = statement<{ id: string }>(
  'builds.runningOfApp',
  `SELECT id FROM build WHERE app_id = $1 AND holds`,
)
const supersedeQueued = statement<{ id: string; deploymentId: string }>(
  'builds.supersedeQueued',
  `UPDATE build SET state = 'superseded', ended_at = now() WHERE app_id = $1 AND state = 'queued'
   RETURNING id, deployment_id AS "deploymentId"`,
)
const nextOfApp = statement<{ id: string }>(
  'builds.nextOfApp',
  `SELECT id FROM build WHERE app_id = $1 AND state = 'queued'`,
)
const claimHost = statement(
  'builds.claimHost',
  `UPDATE build SET holds = true, host_id = $2, hypervisor = $3, generation = generation + 2, state = 'fetching',
     started_at = now()
   WHERE id = $1 AND state = 'queued'`,
)
const requeue = statement(
  'builds.requeue',
  `UPDATE build SET holds = false, host_id = NULL, hypervisor = NULL, state = 'queued', hosts_lost = hosts_lost + 1
   WHERE id = $1 AND holds`,
)
const noteState = statement(
  'builds.noteState',
  `UPDATE build SET state = $2 WHERE id = $1 AND state <> $2 AND ended_at IS NULL`,
)
const noteCommit = statement(
  'builds.noteCommit',
  `UPDATE deployment d SET git_branch = $2, git_commit_hash = $3, git_commit_message = $4, updated_at = now()
   FROM build b WHERE b.id = $1 AND d.id = b.deployment_id
     AND (d.git_branch, d.git_commit_hash, d.git_commit_message) IS DISTINCT FROM ($2, $3, $4)`,
)
const endBuild = statement(
  'builds.end',
  `UPDATE build SET state = $2, image = $3, error = $4, ended_at = now() WHERE id = $1 AND ended_at IS NULL`,
)
const releaseBuild = statement('builds.release', `UPDATE build SET holds = false WHERE id = $1 AND holds`)
const keyHost = statement<{ host: string }>(
  'builds.keyHost',
  `SELECT host FROM git_credential WHERE app_id = $1 AND kind = 'ssh_key'`,
)
const sourceForHost = statement<{ appId: string; gitUrl: string }>(
  'builds.sourceForHost',
  `SELECT app_id AS "appId", git_url AS "gitUrl" FROM build WHERE id = $1 AND host_id = $2 AND holds`,
)
const hostsUp = statement<{ count: number }>(
  'builds.hostsUp',
  `SELECT count(*)::int AS count FROM host WHERE removed_at IS NULL AND lost_at IS NULL`,
)

export type NewBuild = Pick<
  Build,
  | 'id'
  | 'projectId'
  | 'appId'
  | 'deploymentId'
  | 'gitUrl'
  | 'gitBranch'
  | 'gitCommit'
  | 'gitSubmodules'
  | 'scmInstallationId'
  | 'vcpus'
  | 'memoryMib'
  | 'diskMib'
>

export const byId = (sql: Sql, id: string) => sql.maybe(buildById, [id])
export const insert = (tx: Tx, b: NewBuild) =>
  tx.run(insertBuild, [
    b.id,
    b.projectId,
    b.appId,
    b.deploymentId,
    b.gitUrl,
    b.gitBranch,
    b.gitCommit,
    b.scmInstallationId,
    b.vcpus,
    b.memoryMib,
    b.diskMib,
    b.gitSubmodules,
  ])
/** Returns the id of the app's running build: the one that holds resources on a host. */
export const running = async (sql: Sql, appId: string) => (await sql.maybe(runningOfApp, [appId]))?.id
/** Supersedes the app's queued builds and returns them; running builds continue. */
export const supersede = (tx: Tx, appId: string) => tx.rows(supersedeQueued, [appId])
export const next = async (tx: Tx, appId: string) => (await tx.maybe(nextOfApp, [appId]))?.id
/**
 * Assigns the build to a host. Returns false when the build is no longer queued.
 * @throws unique violation `build_running` when another build of the app runs
 */
export const claim = async (tx: Tx, id: string, hostId: string, hypervisor: string) =>
  (await tx.run(claimHost, [id, hostId, hypervisor])) === 1
/** Queues the build again after its host was lost. */
export const waitAgain = (tx: Tx, id: string) => tx.run(requeue, [id])
export const moved = (tx: Tx, id: string, state: BuildState) => tx.run(noteState, [id, state])
/** Records in the deployment which commit was built. */
export const commit = (tx: Tx, id: string, found: NonNullable<BuildObserved['commit']>) =>
  tx.run(noteCommit, [id, found.branch, found.hash, found.message])
export const end = (
  tx: Tx,
  id: string,
  to: { readonly state: BuildState; readonly image?: string | null; readonly error?: string | null },
) => tx.run(endBuild, [id, to.state, to.image ?? null, to.error ?? null])
/** Ends the reservation of the host's resources for the build. Returns true if there was a reservation. */
export const releaseHold = async (tx: Tx, id: string) => (await tx.run(releaseBuild, [id])) === 1
/** Returns the name of the git host for which the app has a deploy key. */
export const deployKeyHost = async (sql: Sql, appId: string) => (await sql.maybe(keyHost, [appId]))?.host
export const hostCount = async (sql: Sql) => (await sql.one(hostsUp)).count
/** Returns the source of a build that runs on the host; undefined when no such build runs there. */
export const ofHost = (sql: Sql, id: string, hostId: string) => sql.maybe(sourceForHost, [id, hostId])

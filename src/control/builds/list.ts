import { type Sql, statement } from '../../db/db.ts'
import type { Window } from '../http/paging.ts'
import type { BuildState } from './store.ts'

/** A build as shown in the list of an app's builds. */
export interface ListedBuild {
  readonly id: string
  readonly deploymentId: string
  readonly jobId: string
  readonly state: BuildState
  readonly branch: string
  readonly commit: string
  readonly message: string
  readonly triggerSource: string
  readonly image: string | null
  readonly gitUrl: string
  readonly error: string | null
  readonly hostId: string | null
  readonly createdAt: Date
  readonly startedAt: Date | null
  readonly endedAt: Date | null
}

const columns = `b.id, b.deployment_id AS "deploymentId", d.job_id AS "jobId", b.state, d.git_branch AS branch,
  d.git_commit_hash AS commit, d.git_commit_message AS message, d.trigger_source AS "triggerSource", b.image, b.git_url AS "gitUrl", b.error,
  b.host_id AS "hostId", b.created_at AS "createdAt", b.started_at AS "startedAt", b.ended_at AS "endedAt"`
const ofApp = `FROM build b JOIN app a ON a.id = b.app_id JOIN deployment d ON d.id = b.deployment_id
  WHERE b.project_id = $1 AND a.name = $2 AND a.want = 'live' AND a.owner = 'user' AND d.want <> 'deleted'`

const listBuilds = statement<ListedBuild>(
  'builds.list',
  `SELECT ${columns} ${ofApp} AND b.id < $5::uuid ORDER BY b.id DESC LIMIT $3 OFFSET $4`,
)
const oneBuild = statement<ListedBuild>(
  'builds.named',
  `SELECT ${columns} ${ofApp} AND (b.id::text = $3 OR d.id::text = $3 OR d.job_id = $3)`,
)
const appThere = statement<{ id: string }>(
  'builds.app',
  `SELECT id FROM app WHERE project_id = $1 AND name = $2 AND want = 'live' AND owner = 'user'`,
)

export const list = (sql: Sql, projectId: string, app: string, { take, skip, before }: Window) =>
  sql.rows(listBuilds, [projectId, app, take, skip, before])
/** Finds a build by its own id, or by the id or job id of its deployment. */
export const named = (sql: Sql, projectId: string, app: string, name: string) =>
  sql.maybe(oneBuild, [projectId, app, name])
export const appNamed = (sql: Sql, projectId: string, app: string) => sql.maybe(appThere, [projectId, app])

/** Reads lists of deployments. Each row has only the fields that its list shows, because a page has a hundred rows. */
import { type Db, statement } from '../../db/db.ts'
import type { Window } from '../http/paging.ts'
import { authorOf } from './author.ts'
import type { DeploymentRequests } from './request-counts.ts'
import type { VmFacts } from './rules.ts'
import type { Deployment, DeploymentVm } from './store.ts'

export interface ListedDeployment
  extends Pick<
      Deployment,
      | (
          | 'id'
          | 'jobId'
          | 'projectId'
          | 'appId'
          | 'appName'
          | 'buildId'
          | 'image'
          | 'hypervisor'
          | 'vcpus'
          | 'memoryMib'
        )
      | ('diskMib' | 'port' | 'gitBranch' | 'gitCommitHash' | 'gitCommitMessage' | 'triggerSource' | 'createdAt')
      | ('author' | 'requestedAt' | 'startedAt' | 'stoppedAt')
      | ('updatedAt' | 'scaleState' | 'want' | 'outcome' | 'phase' | 'reactivated')
    >,
    DeploymentRequests {
  readonly vms: readonly (VmFacts & Pick<DeploymentVm, 'id' | 'hypervisor' | 'ipv6Address'>)[]
}

// The VMs are aggregated as rows with `json_agg`, which costs half as much as `json_build_object` with the same fields.
const vmsOf = (deployment: string) => `coalesce((SELECT json_agg(one) FROM (
    SELECT v.id, v.host_id AS "hostId", v.hypervisor, v.want, v.seen_state AS "observedState", v.healthy,
      v.ipv6_address AS "ipv6Address",
      EXISTS (SELECT FROM migration g WHERE g.vm_id = v.id AND g.ended_at IS NULL) AS migrating
    FROM vm v WHERE v.deployment_id = ${deployment} AND v.run_id IS NULL ORDER BY v.id) one), '[]'::json) AS vms`
const columns = `d.id, d.job_id AS "jobId", d.project_id AS "projectId", d.app_id AS "appId", a.name AS "appName",
  d.build_id AS "buildId", d.image, d.hypervisor, d.vcpus, d.memory_mib AS "memoryMib", d.disk_mib AS "diskMib", d.port,
  d.git_branch AS "gitBranch", d.git_commit_hash AS "gitCommitHash", d.git_commit_message AS "gitCommitMessage",
  d.trigger_source AS "triggerSource", d.created_at AS "createdAt", d.updated_at AS "updatedAt",
  ${authorOf('d')} AS author, coalesce(d.activated_at, d.created_at) AS "requestedAt", d.started_at AS "startedAt", d.stopped_at AS "stoppedAt",
  a.scale_state AS "scaleState", d.want, d.outcome, d.reactivated, m.phase,
  coalesce(c.requests, 0)::float8 AS requests, coalesce(c.failed, 0)::float8 AS "failedRequests", ${vmsOf('d.id')}`
// Selects the rows of the page before joining other tables: otherwise the columns of skipped rows are computed as well.
const joined = `JOIN deployment d ON d.id = page.id
  JOIN app a ON a.id = d.app_id
  LEFT JOIN machine m ON m.kind = 'deployment' AND m.id = d.id
  LEFT JOIN deployment_requests c ON c.deployment_id = d.id
  ORDER BY d.id DESC`

const ofApp = statement<ListedDeployment>(
  'deployments.listOfApp',
  `SELECT ${columns} FROM (
     SELECT n.id FROM deployment n JOIN app o ON o.id = n.app_id
     WHERE n.project_id = $1 AND o.name = $2 AND o.owner = 'user' AND o.want = 'live' AND n.want <> 'deleted'
       AND n.id < $5::uuid ORDER BY n.id DESC LIMIT $3 OFFSET $4) page ${joined}`,
)
// Skipped rows are read from the index alone: with a join, the page after 900 rows took three times as long as the
// first page. The NOT EXISTS is cheap, because few apps belong to the platform.
const aliveOnes = `SELECT n.id FROM deployment n WHERE n.project_id = $1 AND n.outcome IS NULL AND n.want <> 'deleted'
       AND NOT EXISTS (SELECT FROM app b WHERE b.project_id = $1 AND b.id = n.app_id AND b.owner <> 'user')
       AND n.id < $4::uuid ORDER BY n.id DESC LIMIT $2 OFFSET $3`
const alive = statement<ListedDeployment>('deployments.live', `SELECT ${columns} FROM (${aliveOnes}) page ${joined}`)
// The page is returned as one JSON text: parsing a hundred rows of sixteen columns in the driver takes twice as long as
// the rest of the query.
const active = statement<{ page: string }>(
  'deployments.active',
  `SELECT coalesce(json_agg(listed), '[]')::text AS page FROM (
     SELECT page.*, (SELECT m.phase FROM machine m WHERE m.kind = 'deployment' AND m.id = page.id) AS phase, ${vmsOf('page.id')}
     FROM (SELECT n.id, n.job_id AS "jobId", n.app_id AS "appId", o.name AS "appName", n.image, n.hypervisor, n.vcpus,
       n.memory_mib AS "memoryMib", o.scale_state AS "scaleState", n.want, n.outcome, n.reactivated
       FROM (${aliveOnes}) chosen JOIN deployment n ON n.id = chosen.id JOIN app o ON o.id = n.app_id
       ORDER BY n.id DESC) page) listed`,
)

/** Returns the deployments of an app, newest first. */
export const list = (db: Db, projectId: string, appName: string, { take, skip, before }: Window) =>
  db.rows(ofApp, [projectId, appName, take, skip, before])

/** Returns the unfinished deployments of all apps of the project, newest first. */
export const live = (db: Db, projectId: string, { take, skip, before }: Window) =>
  db.rows(alive, [projectId, take, skip, before])

/** The fields of a deployment in the live list. */
export type ActiveDeployment = Pick<
  ListedDeployment,
  | ('id' | 'jobId' | 'appId' | 'appName' | 'image' | 'hypervisor' | 'vcpus' | 'memoryMib' | 'scaleState' | 'want')
  | ('outcome' | 'phase' | 'reactivated' | 'vms')
>
/** Returns the same deployments as `live`, with only the fields of the live list. */
export async function activeOnes(
  db: Db,
  projectId: string,
  { take, skip, before }: Window,
): Promise<ActiveDeployment[]> {
  return JSON.parse((await db.one(active, [projectId, take, skip, before])).page)
}

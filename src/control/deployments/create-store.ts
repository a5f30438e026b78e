/** Creates the rows of deployments, and sums up the sizes that are compared with the project's limits. */
import { type Tx, statement } from '../../db/db.ts'
import { ownerOfVariables, variablesOf } from '../base/variables.ts'
import { invalidField } from '../http/errors.ts'
import type { DeployBuild } from './deploy.ts'
import type { Deployment } from './store.ts'

export interface NewDeployment {
  readonly id: string
  readonly jobId: string
  readonly projectId: string
  readonly appId: string
  readonly image: string
  readonly hypervisor: number
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
  readonly port: number
  readonly triggerSource: 'manual' | 'api' | 'push' | 'rollback'
  /** The account that requested the deployment; a push has none. */
  readonly authorId?: string
  /** Trace context of the request that created the deployment, if any. */
  readonly traceparent?: string
  /** The build that makes the image; the image is empty until then. */
  readonly build?: DeployBuild
}

const newestOfApp = statement<Pick<Deployment, 'image' | 'vcpus' | 'memoryMib' | 'diskMib'>>(
  'deployments.newest',
  `SELECT image, vcpus, memory_mib AS "memoryMib", disk_mib AS "diskMib" FROM deployment
   WHERE app_id = $1 AND want <> 'deleted' ORDER BY id DESC LIMIT 1`,
)
const ipv6Prefix = statement<{ prefix: string }>(
  'deployments.ipv6Prefix',
  `SELECT ipv6_prefix AS prefix FROM project WHERE id = $1`,
)
// VMs that are being removed do not count toward the plan: a redeploy must be possible when the plan is used up.
const usageOfProject = statement<{
  vcpus: number
  memoryMib: number
  /** The app's own share of `vcpus`, as `ownMemoryMib` is that of `memoryMib`. */
  ownVcpus: number
  ownMemoryMib: number
  /** True if the app replaces its VMs one at a time: an old VM ends before a VM of the new version starts. */
  isReplacing: boolean
  deployments: number
}>(
  'deployments.usage',
  `SELECT coalesce(sum(claim.vcpus), 0)::int AS vcpus, coalesce(sum(claim.memory_mib), 0)::int AS "memoryMib",
          coalesce(sum(claim.vcpus) FILTER (WHERE claim.app_id = $2), 0)::int AS "ownVcpus",
          coalesce(sum(claim.memory_mib) FILTER (WHERE claim.app_id = $2), 0)::int AS "ownMemoryMib",
          (SELECT strategy = 'one-at-a-time' AND active_deployment_id IS NOT NULL FROM app WHERE id = $2) AS "isReplacing",
          (SELECT count(*)::int FROM deployment WHERE app_id = $2 AND outcome IS NULL AND want <> 'deleted') AS deployments
   FROM (SELECT app_id, vcpus, memory_mib FROM vm WHERE project_id = $1 AND want <> 'absent'
           -- Spare VMs of the platform do not count toward the plan.
           AND NOT EXISTS (SELECT FROM branch b WHERE b.app_id = vm.app_id AND b.kind = 'spare')
         UNION ALL
         -- Deployments that are being built or released count: the plan check accepted them when they were requested.
         SELECT d.app_id, d.vcpus * greatest(a.desired_replicas, 1), d.memory_mib * greatest(a.desired_replicas, 1)
         FROM deployment d JOIN app a ON a.id = d.app_id
         WHERE d.project_id = $1 AND d.outcome IS NULL AND d.want = 'running' AND (d.image = '' OR EXISTS (
           SELECT FROM machine m WHERE m.kind = 'deployment' AND m.id = d.id AND m.phase = 'releasing'))) claim`,
)
const insertDeployment = statement(
  'deployments.insert',
  `INSERT INTO deployment (id, job_id, project_id, app_id, image, hypervisor, vcpus, memory_mib, disk_mib, port, trigger_source,
     traceparent, build_id, git_branch, git_commit_hash, git_commit_message, author_id, git_author, command, arguments, health_check_path, canary, restart)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, (SELECT command FROM app WHERE id = $4),
     (SELECT arguments FROM app WHERE id = $4), (SELECT health_check_path FROM app WHERE id = $4),
     (SELECT canary FROM app WHERE id = $4 AND kind = 'web'),
     (SELECT restart FROM app WHERE id = $4))`,
)
const copyEnv = statement(
  'deployments.copyEnv',
  `INSERT INTO deployment_env (deployment_id, name, value) SELECT $1, name, value
   FROM ${variablesOf(ownerOfVariables('$2'))} every`,
)
const copyFiles = statement(
  'deployments.copyFiles',
  `INSERT INTO deployment_file (deployment_id, path, mode, content, variable)
   SELECT $1, path, mode, content, variable FROM app_file
   WHERE app_id = (SELECT coalesce(env_of, id) FROM app WHERE id = $2)`,
)
const lackingVariable = statement<{ path: string; variable: string }>(
  'deployments.lackingVariable',
  `SELECT path, variable FROM deployment_file f WHERE deployment_id = $1 AND variable IS NOT NULL
     AND NOT EXISTS (SELECT FROM deployment_env e WHERE e.deployment_id = $1 AND e.name = f.variable) ORDER BY path LIMIT 1`,
)

const copyReleaseCommand = statement<{ has: boolean }>(
  'deployments.copyReleaseCommand',
  `UPDATE deployment d SET release_command = a.release_command FROM app a
   WHERE d.id = $1 AND a.id = $2 RETURNING a.release_command IS NOT NULL AS has`,
)

export const newest = (tx: Tx, appId: string) => tx.maybe(newestOfApp, [appId])
export const prefixOf = async (tx: Tx, projectId: string) => (await tx.one(ipv6Prefix, [projectId])).prefix
/** Sums up the sizes of the project's VMs, and counts the unfinished deployments of the app. */
export const usage = (tx: Tx, projectId: string, appId: string) => tx.one(usageOfProject, [projectId, appId])
export const insert = (tx: Tx, d: NewDeployment) =>
  tx.run(insertDeployment, [
    d.id,
    d.jobId,
    d.projectId,
    d.appId,
    d.image,
    d.hypervisor,
    d.vcpus,
    d.memoryMib,
    d.diskMib,
    d.port,
    d.triggerSource,
    d.traceparent ?? null,
    d.build?.buildId ?? '',
    d.build?.commit.branch ?? '',
    d.build?.commit.hash ?? '',
    d.build?.commit.message ?? '',
    d.authorId ?? null,
    d.build?.commit.author ?? '',
  ])
/** Copies the app's current variables, including those of its environment groups, for all VMs of the deployment. */
export const keepEnv = (tx: Tx, id: string, appId: string) => tx.run(copyEnv, [id, appId])
/**
 * Copies the app's current files for all VMs of the deployment. Call it after `keepEnv`.
 * @throws ApiError 400 if the content of a file is the value of a variable that the app no longer has
 */
export async function keepFiles(tx: Tx, id: string, appId: string): Promise<void> {
  if ((await tx.run(copyFiles, [id, appId])) === 0) return
  const lacking = await tx.maybe(lackingVariable, [id])
  if (lacking)
    throw invalidField(
      'files',
      `${lacking.path} has the value of ${lacking.variable}, which the app does not have. Set the variable, or remove the file`,
    )
}
/** Copies the app's release command. Returns whether it has one. */
export const keepReleaseCommand = async (tx: Tx, id: string, appId: string) =>
  (await tx.one(copyReleaseCommand, [id, appId])).has

import type { HypervisorName } from '../../contract/agent.ts'
import { authorOf } from './author.ts'
import { type Db, type Sql, type Tx, statement } from '../../db/db.ts'
import type { HostSettings } from '../scheduler/wishes.ts'
import { type CanaryFacts, canaryColumns } from './canary-facts.ts'
import { type RestartFacts, restartColumns } from './restart.ts'
import { type ExclusiveFacts, exclusiveColumns } from './one-at-a-time.ts'
import type { DeploymentFacts, VmFacts } from './rules.ts'

/** A deployment with the facts from which its status and its live view are derived. */
export interface Deployment extends DeploymentFacts, CanaryFacts, RestartFacts, ExclusiveFacts {
  readonly id: string
  readonly jobId: string
  readonly projectId: string
  readonly appId: string
  readonly appName: string
  readonly appOwner: 'user' | 'database'
  readonly rollout: number
  readonly buildId: string
  readonly image: string
  readonly hypervisor: number
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
  readonly port: number
  readonly gitBranch: string
  readonly gitCommitHash: string
  readonly gitCommitMessage: string
  readonly triggerSource: string
  /** Name or e-mail address of the user who requested the deployment; empty if unknown. */
  readonly author: string
  /** When the deployment's current rollout was requested: by its creation, or by its last activation. */
  readonly requestedAt: Date
  readonly errorMessage: string | null
  readonly scheduledAt: Date | null
  readonly startedAt: Date | null
  readonly stoppedAt: Date | null
  readonly createdAt: Date
  readonly updatedAt: Date
  readonly scaleState: 'active' | 'idle' | 'scaled_to_zero' | 'warming_up'
  readonly desiredReplicas: number
  readonly drainSeconds: number
  /** Host labels that the app requires and prefers. */
  readonly appHosts: HostSettings | null
  /** Number of times in a row that a crashed VM was replaced, and the time of the last replacement. */
  readonly replaced: number
  readonly replacedAt: Date | null
  readonly activeDeploymentId: string | null
  /** Rollout number of the app's active deployment; 0 if none is active. */
  readonly activeRollout: number
  readonly appWant: 'live' | 'deleted'
  readonly ipv6Prefix: string
  /** When a VM of the deployment was last placed. */
  readonly placedAt: Date | null
  /** True if one-off VMs with the deployment's image exist. They are not among `vms`. */
  readonly hasRuns: boolean
  /** True if the release command has not ended yet. */
  readonly hasRelease: boolean
  /** True if the release command has succeeded, or the deployment has none. */
  readonly isReleased: boolean
  /** Command that runs once in a separate VM before the deployment serves. */
  readonly releaseCommand: readonly string[] | null
  /** The last status of the deployment that was sent to the event streams. */
  readonly announced: string | null
  readonly vms: readonly DeploymentVm[]
  /** The build that makes the image; null for a deployment of an existing image. */
  readonly build: {
    readonly id: string
    readonly state: 'queued' | 'fetching' | 'building' | 'pushing' | 'succeeded' | 'failed' | 'cancelled' | 'superseded'
    readonly image: string | null
    readonly error: string | null
    readonly hostId: string | null
    /** True if the build is queued, or a host still has something of it. */
    readonly isBusy: boolean
  } | null
  /** The snapshot from which the app wakes; null if there is none. */
  readonly sleepSnapshot: {
    readonly id: string
    readonly state: 'creating' | 'ready' | 'failed'
    readonly hostId: string
  } | null
}

export interface DeploymentVm extends VmFacts {
  readonly id: string
  readonly hostId: string | null
  readonly hypervisor: HypervisorName | null
  readonly ipv6Address: string
  readonly error: string | null
  readonly placementNote: string | null
  /** True if the VM's host is being drained, and the VM can leave it, together with its volumes if there are any. */
  readonly leaving: boolean
  /** True if the VM's hypervisor can take a snapshot of its memory and disk, and of its volumes if there are any. */
  readonly canSnapshot: boolean
  /**
   * True if the VM's host is being drained, the hypervisor can move the VM while it runs, and fewer than two moves have
   * failed.
   */
  readonly canMove: boolean
  readonly balloonTargetMib: number | null
  readonly restartCount: number
  readonly steps: readonly { readonly name: string; readonly ms: number }[]
}

// SQL condition: the VM can move together with its volumes. No other VM has these volumes attached, and fewer than two
// moves have failed in the last ten minutes. A VM with volumes cannot be replaced, so it waits after two failures.
const canTakeVolumes = `(EXISTS (SELECT FROM vm_disk k WHERE k.vm_id = v.id)
  AND NOT EXISTS (SELECT FROM vm_disk k JOIN vm_disk other ON other.volume_id = k.volume_id AND other.vm_id <> k.vm_id WHERE k.vm_id = v.id)
  AND (SELECT count(*) FROM migration g WHERE g.vm_id = v.id AND g.source_host_id = v.host_id AND g.state = 'failed'
       AND g.ended_at > now() - interval '10 minutes') < 2)`
const columns = `d.id, d.job_id AS "jobId", d.project_id AS "projectId", d.app_id AS "appId", a.name AS "appName", a.owner AS "appOwner",
  d.rollout, d.build_id AS "buildId", d.image, d.hypervisor, d.vcpus, d.memory_mib AS "memoryMib",
  d.disk_mib AS "diskMib", d.port, d.git_branch AS "gitBranch", d.git_commit_hash AS "gitCommitHash",
  d.git_commit_message AS "gitCommitMessage", d.trigger_source AS "triggerSource",
  ${authorOf('d')} AS author, coalesce(d.activated_at, d.created_at) AS "requestedAt", d.want, d.outcome,
  d.error_message AS "errorMessage", d.scheduled_at AS "scheduledAt", d.started_at AS "startedAt",
  d.stopped_at AS "stoppedAt", d.created_at AS "createdAt", d.updated_at AS "updatedAt",
  a.scale_state AS "scaleState", a.desired_replicas AS "desiredReplicas", a.drain_timeout AS "drainSeconds", a.hosts AS "appHosts",
  d.replaced, d.replaced_at AS "replacedAt", d.announced, d.reactivated,
  ${canaryColumns},
  ${restartColumns},
  a.active_deployment_id AS "activeDeploymentId", coalesce(active.rollout, 0) AS "activeRollout", a.want AS "appWant",
  p.ipv6_prefix AS "ipv6Prefix", m.phase,
  ${exclusiveColumns},
  (SELECT max(v.placed_at) FROM vm v WHERE v.deployment_id = d.id AND v.run_id IS NULL AND v.want <> 'absent') AS "placedAt",
  EXISTS (SELECT FROM vm v WHERE v.deployment_id = d.id AND v.run_id IS NOT NULL) AS "hasRuns",
  EXISTS (SELECT FROM run r WHERE r.deployment_id = d.id AND r.purpose = 'release' AND r.ended_at IS NULL) AS "hasRelease",
  (d.release_command IS NULL OR EXISTS (
    SELECT FROM run r WHERE r.deployment_id = d.id AND r.purpose = 'release' AND r.outcome = 'succeeded')) AS "isReleased", d.release_command AS "releaseCommand",
  coalesce((SELECT jsonb_agg(jsonb_build_object(
      'id', v.id, 'hostId', v.host_id, 'hypervisor', v.hypervisor, 'want', v.want, 'observedState', v.seen_state,
      'healthy', v.healthy, 'ipv6Address', v.ipv6_address, 'error', v.seen_error, 'placementNote', v.placement_note,
      'restartCount', v.restart_count, 'exitCode', v.seen_exit_code, 'steps', v.seen_steps, 'leaving', coalesce(h.draining, false) AND (${canTakeVolumes} OR NOT EXISTS (
         SELECT FROM vm_disk k JOIN volume o ON o.id = k.volume_id WHERE k.vm_id = v.id AND o.bound)),
      'balloonTargetMib', v.balloon_target_mib, 'migrating', EXISTS (SELECT FROM migration g WHERE g.vm_id = v.id AND g.ended_at IS NULL),
      'canSnapshot', EXISTS (SELECT FROM jsonb_array_elements(h.hypervisors) offer
         WHERE offer->>'name' = v.hypervisor AND offer->'capabilities'->>'snapshot' = 'true'
           AND (coalesce(offer->'features' ? 'kept-volumes', false) OR NOT EXISTS (SELECT FROM vm_disk k WHERE k.vm_id = v.id))),
      'canMove', coalesce(h.draining, false) AND (${canTakeVolumes} OR (EXISTS (SELECT FROM jsonb_array_elements(h.hypervisors) offer
         WHERE offer->>'name' = v.hypervisor AND offer->'capabilities'->>'migrate' = 'live')
         AND (SELECT count(*) FROM migration g WHERE g.vm_id = v.id AND g.source_host_id = v.host_id AND g.state = 'failed') < 2
         AND NOT EXISTS (SELECT FROM vm_disk k WHERE k.vm_id = v.id)))
      ) ORDER BY v.id)
    FROM vm v LEFT JOIN host h ON h.id = v.host_id WHERE v.deployment_id = d.id AND v.run_id IS NULL), '[]'::jsonb) AS vms,
  (SELECT jsonb_build_object('id', b.id, 'state', b.state, 'image', b.image, 'error', b.error, 'hostId', b.host_id,
     'isBusy', b.holds OR b.ended_at IS NULL) FROM build b WHERE b.deployment_id = d.id) AS build,
  (SELECT jsonb_build_object('id', s.id, 'state', s.state, 'hostId', s.host_id) FROM vm_snapshot s
   WHERE s.deployment_id = d.id AND s.kind = 'sleep' AND s.want = 'present') AS "sleepSnapshot"`
const joined = `FROM deployment d
  JOIN app a ON a.id = d.app_id
  JOIN project p ON p.id = d.project_id
  LEFT JOIN deployment active ON active.id = a.active_deployment_id
  LEFT JOIN machine m ON m.kind = 'deployment' AND m.id = d.id`

const deploymentById = statement<Deployment>('deployments.byId', `SELECT ${columns} ${joined} WHERE d.id = $1`)
// Finds a deployment by its job id or its UUID. It must belong to the named app of the project.
const deploymentOfApp = statement<Deployment>(
  'deployments.ofApp',
  `SELECT ${columns} ${joined}
   WHERE d.project_id = $1 AND a.name = $2 AND a.owner = 'user' AND a.want = 'live' AND (d.job_id = $3 OR d.id::text = $3) AND d.want <> 'deleted'`,
)
const activeDeployment = statement<{ id: string }>(
  'deployments.activeOfApp',
  `SELECT d.id FROM app a JOIN deployment d ON d.id = a.active_deployment_id
   WHERE a.project_id = $1 AND a.name = $2 AND a.owner = 'user' AND a.want = 'live'`,
)
const lockDeployment = statement<{ id: string }>(
  'deployments.lock',
  `SELECT d.id FROM deployment d JOIN app a ON a.id = d.app_id
   WHERE d.project_id = $1 AND a.name = $2 AND a.owner = 'user' AND a.want = 'live' AND (d.job_id = $3 OR d.id::text = $3) AND d.want <> 'deleted'
   FOR UPDATE OF a, d`,
)
const holdDeployment = statement<{ id: string; rollout: number }>(
  'deployments.hold',
  `SELECT d.id, d.rollout FROM deployment d JOIN app a ON a.id = d.app_id WHERE d.id = $1 FOR NO KEY UPDATE OF a, d`,
)
const appOfProject = statement<{ id: string }>(
  'deployments.app',
  `SELECT id FROM app WHERE project_id = $1 AND name = $2 AND want = 'live' AND owner = 'user'`,
)
const vmsOfOneApp = statement<{ id: string; deploymentId: string; hostId: string | null }>(
  'deployments.vmsOfApp',
  `SELECT v.id, v.deployment_id AS "deploymentId", v.host_id AS "hostId"
   FROM vm v JOIN deployment d ON d.id = v.deployment_id WHERE d.app_id = $1
   UNION ALL
   SELECT b.id, b.deployment_id, b.host_id FROM build b JOIN deployment d ON d.id = b.deployment_id
   WHERE b.app_id = $1 AND d.outcome IS NULL
   ORDER BY 1`,
)
const liveDeploymentsOfApp = statement<Deployment>(
  'deployments.liveOfApp',
  `SELECT ${columns} ${joined} WHERE d.app_id = $1 AND d.outcome IS NULL AND d.want <> 'deleted' ORDER BY d.id DESC LIMIT 20`,
)
const setWant = statement(
  'deployments.setWant',
  `UPDATE deployment SET want = $2, updated_at = now() WHERE id = $1 AND want <> $2 AND want <> 'deleted'`,
)
const revive = statement(
  'deployments.revive',
  `UPDATE deployment SET want = 'running', outcome = NULL, error_message = NULL, scheduled_at = NULL, started_at = NULL,
     stopped_at = NULL, rollout = nextval('rollout_order'), trigger_source = 'rollback', reactivated = $2, finished = 0, updated_at = now()
   WHERE id = $1 AND want <> 'deleted'`,
)
const markRollback = statement(
  'deployments.markRollback',
  `UPDATE deployment SET trigger_source = 'rollback' WHERE id = $1`,
)
const renewRollout = statement(
  'deployments.renewRollout',
  `UPDATE deployment SET rollout = nextval('rollout_order'), want = CASE want WHEN 'stopped' THEN 'running' ELSE want END,
     finished = 0, updated_at = now() WHERE id = $1`,
)
const finish = statement(
  'deployments.finish',
  `UPDATE deployment SET outcome = coalesce(outcome, $2), error_message = coalesce($3, error_message),
     stopped_at = coalesce(stopped_at, now()), reactivated = false,
     canary_ended_at = CASE canary_state WHEN 'running' THEN now() ELSE canary_ended_at END,
     canary_state = CASE canary_state WHEN 'running' THEN 'cancelled' ELSE canary_state END, updated_at = now()
   WHERE id = $1`,
)
const forgetReactivation = statement(
  'deployments.forgetReactivation',
  `UPDATE deployment SET reactivated = false, updated_at = now() WHERE id = $1`,
)
const markScheduled = statement(
  'deployments.markScheduled',
  `UPDATE deployment SET scheduled_at = now(), updated_at = now() WHERE id = $1 AND scheduled_at IS NULL`,
)
const markStarted = statement(
  'deployments.markStarted',
  `UPDATE deployment SET started_at = now(), scheduled_at = coalesce(scheduled_at, now()), updated_at = now()
   WHERE id = $1 AND started_at IS NULL`,
)
const markAnnounced = statement(
  'deployments.markAnnounced',
  `UPDATE deployment SET announced = $2, updated_at = now() WHERE id = $1 AND announced IS DISTINCT FROM $2`,
)
const setImage = statement(
  'deployments.setImage',
  `UPDATE deployment SET image = $2, updated_at = now() WHERE id = $1 AND image = ''`,
)
const deleteDeployment = statement('deployments.delete', `DELETE FROM deployment WHERE id = $1`)
const rollingBefore = statement<{ id: string }>(
  'deployments.others',
  `SELECT id FROM deployment WHERE app_id = $1 AND id <> $2 AND outcome IS NULL`,
)

export const byId = (sql: Sql, id: string) => sql.maybe(deploymentById, [id])
export const inApp = (sql: Sql, projectId: string, appName: string, job: string) =>
  sql.maybe(deploymentOfApp, [projectId, appName, job])
export const activeOfApp = (sql: Sql, projectId: string, appName: string) =>
  sql.maybe(activeDeployment, [projectId, appName])
/** Finds a deployment like `inApp`, and locks it together with its app until the transaction ends. */
export const lockInApp = async (tx: Tx, projectId: string, appName: string, job: string) =>
  (await tx.maybe(lockDeployment, [projectId, appName, job])) && inApp(tx, projectId, appName, job)
/**
 * Locks the app, then the deployment. Needed before the deployment's VMs, volumes or snapshots are changed in the same
 * transaction.
 */
export const hold = (tx: Tx, id: string) => tx.rows(holdDeployment, [id])
/**
 * Locks the app and the deployment, for a workflow step that has loaded `d`.
 * @throws Error when the deployment was activated since it was loaded: an activation starts a new rollout, and the
 * step's decision concerns the earlier one
 */
export async function holdAsObserved(tx: Tx, d: Pick<Deployment, 'id' | 'rollout'>): Promise<void> {
  const [now] = await hold(tx, d.id)
  if (now && now.rollout !== d.rollout) throw new Error('the deployment was activated in the meantime')
}
export const appRef = (db: Sql, projectId: string, name: string) => db.maybe(appOfProject, [projectId, name])
export const vmsOfApp = (db: Db, appId: string) => db.rows(vmsOfOneApp, [appId])
export const liveOfApp = (db: Db, appId: string) => db.rows(liveDeploymentsOfApp, [appId])
export const desired = async (tx: Tx, id: string, want: DeploymentFacts['want']) =>
  (await tx.run(setWant, [id, want])) === 1
/**
 * Starts a new rollout of a deployment that has ended or is being taken down.
 * @param isLeaving the workflow is still taking the deployment down
 */
export const startAgain = (tx: Tx, id: string, isLeaving: boolean) => tx.run(revive, [id, isLeaving])
/** Clears the mark that the deployment was activated while it was taken down, because its new rollout starts. */
export const rollingAgain = (tx: Tx, id: string) => tx.run(forgetReactivation, [id])
/** Marks the deployment's rollout as a rollback. */
export const rolledBackTo = (tx: Tx, id: string) => tx.run(markRollback, [id])
export const renew = (tx: Tx, id: string) => tx.run(renewRollout, [id])
type Outcome = NonNullable<DeploymentFacts['outcome']>
export const end = (tx: Tx, id: string, outcome: Outcome, error: string | null = null) =>
  tx.run(finish, [id, outcome, error])
export const scheduled = (tx: Tx, id: string) => tx.run(markScheduled, [id])
export const started = (tx: Tx, id: string) => tx.run(markStarted, [id])
/** Records the status as sent to the event streams. Returns false when it equals the last one. */
export const announced = async (tx: Tx, id: string, status: string) => (await tx.run(markAnnounced, [id, status])) === 1
/** Stores the built image. Returns false when the deployment already has an image. */
export const built = async (tx: Tx, id: string, image: string) => (await tx.run(setImage, [id, image])) === 1
export const remove = (tx: Tx, id: string) => tx.run(deleteDeployment, [id])
export const othersAlive = async (tx: Tx, appId: string, id: string) =>
  (await tx.rows(rollingBefore, [appId, id])).map(row => row.id)

/** Statements that record hosts' reports about VMs. */
import type { VmObserved, VmStep } from '../../contract/agent.ts'
import { type Db, type Tx, statement } from '../../db/db.ts'

export interface ObservedVm {
  readonly id: string
  readonly generation: number
  readonly observedGeneration: number
  readonly observedState: VmObserved['state'] | null
  readonly healthy: boolean
  readonly endpointPort: number | null
  readonly restartCount: number
}

// Records an observation only if it comes from the VM's host, is for the generation of the recorded observation or a
// newer one, is not older than the recorded observation, and changes something. An observation that seems more than a
// minute older is recorded, because the host's clock must have been set back. The previous values are read under the
// row's lock, so that the second of two concurrent observations is compared with the first. A VM with an observation no
// longer waits for a host, so its placement note is cleared.
const recordObserved = statement<{
  deploymentId: string
  appId: string
  projectId: string
  /** Kind of the workflow that owns the VM's app, if the app belongs to the platform; its id is `ownerId`. */
  owner: string
  ownerId: string | null
  runId: string | null
  /** State that was recorded before this observation. */
  wasState: VmObserved['state'] | null
  /** Whether only the list of completed start steps has changed. */
  onlySteps: boolean
}>(
  'vms.recordSeen',
  `WITH was AS (
     SELECT id AS was_id, seen_state AS was_state,
       (seen_generation, seen_state, healthy, endpoint_host, endpoint_port, seen_error, restart_count, seen_firewall)
         IS NOT DISTINCT FROM ($3, $4, $5, $6, $7, $8, $9, $12::jsonb) AS only_steps
     FROM vm WHERE id = $1 FOR NO KEY UPDATE)
   UPDATE vm SET seen_generation = $3, seen_state = $4, healthy = $5, endpoint_host = $6, endpoint_port = $7,
                 seen_error = $8, restart_count = $9, seen_steps = $10, seen_firewall = $12,
                 seen_exit_code = $14, placement_note = NULL, seen_count = seen_count + 1, seen_at_us = coalesce($13::bigint, seen_at_us)
   FROM was WHERE id = was_id AND host_id = $2
     AND (seen_generation < $3 OR coalesce($13::bigint, seen_at_us) NOT BETWEEN seen_at_us - 60000000 AND seen_at_us - 1)
     AND seen_generation <= $3 AND generation >= $3 AND seen_count = coalesce($11::bigint, seen_count)
     AND (seen_generation, seen_state, healthy, endpoint_host, endpoint_port, seen_error, restart_count, seen_steps, seen_firewall)
         IS DISTINCT FROM ($3, $4, $5, $6, $7, $8, $9, $10, $12::jsonb)
   RETURNING deployment_id AS "deploymentId", app_id AS "appId", project_id AS "projectId",
     run_id AS "runId", was_state AS "wasState", only_steps AS "onlySteps",
     (SELECT a.owner FROM app a WHERE a.id = app_id) AS owner, (SELECT a.owner_id FROM app a WHERE a.id = app_id) AS "ownerId"`,
)
// Marks an app as active when its first VM is healthy, in the transaction that records this. A locked app is skipped,
// because the transaction that has locked it may be waiting for the lock of this VM. Then the deployment's workflow
// marks the app.
const appIsAwake = statement<{ looksSoon: boolean }>(
  'vms.wakeUp',
  `WITH waking AS (
     SELECT a.id FROM app a JOIN vm v ON v.app_id = a.id
     WHERE v.id = $1 AND a.scale_state = 'warming_up' AND a.active_deployment_id = v.deployment_id
       AND v.want = 'running' AND v.healthy AND v.run_id IS NULL FOR NO KEY UPDATE OF a SKIP LOCKED)
   UPDATE app a SET scale_state = 'active', scale_changed_at = now() FROM waking WHERE a.id = waking.id
   -- A workflow of an older version, or one that failed before, has no early timer and needs a poke.
   RETURNING coalesce((SELECT m.wake_at < now() + interval '2 seconds' FROM machine m
                       WHERE m.kind = 'deployment' AND m.id = a.active_deployment_id), true) AS "looksSoon"`,
)
const observedByHost = statement<ObservedVm>(
  'vms.observedByHost',
  `SELECT id, generation, seen_generation AS "observedGeneration", seen_state AS "observedState", healthy, endpoint_port AS "endpointPort",
     restart_count AS "restartCount" FROM vm WHERE host_id = $1
     OR id = ANY (ARRAY(SELECT vm_id FROM migration WHERE target_host_id = $1 AND ended_at IS NULL))`,
)

/**
 * Marks the VM's app as active if it was waking up; otherwise returns undefined. `looksSoon`: the deployment's
 * workflow runs within two seconds even without a poke.
 */
export const wakeUp = (tx: Tx, id: string) => tx.maybe(appIsAwake, [id])
/** Returns the recorded observations of all VMs on the host, and of VMs migrating to it, by VM id. */
export const observedOnHost = async (db: Db, hostId: string) =>
  new Map((await db.rows(observedByHost, [hostId])).map(row => [row.id, row]))

/**
 * Records the observation. Returns the VM's app, deployment and other parents if it changed something; undefined if
 * the observation was already known, outdated or from another host.
 */
export const record = (tx: Tx, hostId: string, observed: VmObserved, observedCount?: number) =>
  tx.maybe(recordObserved, [
    observed.vmId,
    hostId,
    observed.generation,
    observed.state,
    observed.healthy,
    observed.endpoint?.host ?? null,
    observed.endpoint?.port ?? null,
    observed.error ? observed.error.message : null,
    observed.restartCount,
    JSON.stringify(observed.steps satisfies readonly VmStep[]),
    observedCount ?? null,
    observed.firewall ? JSON.stringify(observed.firewall) : null,
    observed.atUs ?? null,
    observed.exitCode,
  ])

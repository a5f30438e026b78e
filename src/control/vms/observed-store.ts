/** What hosts say of VMs, as it is recorded. */
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

// Older news than what is recorded is none, however it came. What is older by more than a minute is that of an agent that was
// started after its host's clock had been put back.
// An observation counts only from the host that owns the VM and about no older wish than we have seen; and only if it
// says something new, so that beats which repeat themselves write nothing. What was known before is read under the lock of the
// row, so that of two observations at once the second compares with the first. What it waited for, it waits for no more.
const recordObserved = statement<{
  deploymentId: string
  appId: string
  projectId: string
  /** Of an app of the platform: the machine that looks after it. */
  owner: string
  ownerId: string | null
  /** What was seen of it before. */
  wasState: VmObserved['state'] | null
  /** All that is new is which steps of its start are done. */
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
                 placement_note = NULL, seen_count = seen_count + 1, seen_at_us = coalesce($13::bigint, seen_at_us)
   FROM was WHERE id = was_id AND host_id = $2
     AND (seen_generation < $3 OR coalesce($13::bigint, seen_at_us) NOT BETWEEN seen_at_us - 60000000 AND seen_at_us - 1)
     AND seen_generation <= $3 AND generation >= $3 AND seen_count = coalesce($11::bigint, seen_count)
     AND (seen_generation, seen_state, healthy, endpoint_host, endpoint_port, seen_error, restart_count, seen_steps, seen_firewall)
         IS DISTINCT FROM ($3, $4, $5, $6, $7, $8, $9, $10, $12::jsonb)
   RETURNING deployment_id AS "deploymentId", app_id AS "appId", project_id AS "projectId",
     was_state AS "wasState", only_steps AS "onlySteps",
     (SELECT a.owner FROM app a WHERE a.id = app_id) AS owner, (SELECT a.owner_id FROM app a WHERE a.id = app_id) AS "ownerId"`,
)
// One VM that is well is enough to serve: its app is awake in the commit that says so. Whoever holds an app may wait for its VMs, so
// this waits for no app: the machine of the deployment, which is poked, does it then.
const appIsAwake = statement<{ looksSoon: boolean }>(
  'vms.wakeUp',
  `WITH waking AS (
     SELECT a.id FROM app a JOIN vm v ON v.app_id = a.id
     WHERE v.id = $1 AND a.scale_state = 'warming_up' AND a.active_deployment_id = v.deployment_id
       AND v.want = 'running' AND v.healthy FOR NO KEY UPDATE OF a SKIP LOCKED)
   UPDATE app a SET scale_state = 'active', scale_changed_at = now() FROM waking WHERE a.id = waking.id
   -- Not that of an older program, nor one that failed before: that looks when it is poked.
   RETURNING coalesce((SELECT m.wake_at < now() + interval '2 seconds' FROM machine m
                       WHERE m.kind = 'deployment' AND m.id = a.active_deployment_id), true) AS "looksSoon"`,
)
const observedByHost = statement<ObservedVm>(
  'vms.observedByHost',
  `SELECT id, generation, seen_generation AS "observedGeneration", seen_state AS "observedState", healthy, endpoint_port AS "endpointPort",
     restart_count AS "restartCount" FROM vm WHERE host_id = $1
     OR id = ANY (ARRAY(SELECT vm_id FROM migration WHERE target_host_id = $1 AND ended_at IS NULL))`,
)

/** The VM's app is awake, if it was waking; undefined when it was not. `looksSoon`: its deployment's machine, without a poke. */
export const wakeUp = (tx: Tx, id: string) => tx.maybe(appIsAwake, [id])
/** What was last seen of every VM that belongs to the host, by VM id. */
export const observedOnHost = async (db: Db, hostId: string) =>
  new Map((await db.rows(observedByHost, [hostId])).map(row => [row.id, row]))

/** The parents of the VM when the observation was news; undefined when it was known, outdated or not the owner's. */
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
  ])

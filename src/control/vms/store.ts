import type { HypervisorName, VmObserved } from '../../contract/agent.ts'
import type { FirewallSpec } from '../../contract/network.ts'
import { type Sql, type Tx, statement } from '../../db/db.ts'
import type { HostSettings } from '../scheduler/wishes.ts'
import { goingWith } from '../moves/index.ts'
import { retainLog } from './retained-log.ts'

/** A VM with all data of its desired state: its own columns and those of its deployment and app. */
export interface Vm {
  readonly id: string
  readonly projectId: string
  readonly appId: string
  readonly appName: string
  /** Owner of the app: a user, or the platform for an app that runs a managed database. */
  readonly appOwner: 'user' | 'database'
  readonly deploymentId: string
  /** The run that the VM belongs to; null for a replica of the deployment. */
  readonly run: {
    readonly id: string
    /** Command that replaces the command of the image. Null: the VM only waits for sessions. */
    readonly command: readonly string[] | null
  } | null
  readonly hostId: string | null
  readonly generation: number
  readonly want: 'running' | 'paused' | 'stopped' | 'absent'
  readonly hypervisor: HypervisorName | null
  /** Hypervisor that the deployment requests, as the API's integer; 0: the scheduler chooses. */
  readonly requestedHypervisor: number
  /** Hypervisor of the snapshot from which the VM starts; null if it boots. */
  readonly snapshotHypervisor: HypervisorName | null
  readonly image: string
  /** W3C Trace Context of the request that created the deployment. */
  readonly traceparent: string | null
  readonly port: number
  readonly healthCheckPath: string
  readonly appKind: 'web' | 'worker'
  /** Host labels that the app requires and prefers. */
  readonly appHosts: HostSettings | null
  /** Whether a new version of the app starts only after the VMs of the old one are gone. */
  readonly oneAtATime: boolean
  /** Hosts of the registries for which the project has credentials. */
  readonly registryHosts: readonly string[]
  /** Program and arguments that the VM runs; empty: those of the image. */
  readonly command: readonly string[]
  /** Arguments of the image's program; empty: those of the image. */
  readonly arguments: readonly string[]
  /** When the agent restarts the program; null: always, as often as the installation's limit allows. */
  readonly restart: { readonly policy: 'always' | 'on-failure' | 'never'; readonly max_restarts: number | null } | null
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
  readonly ipv6Address: string
  readonly observedGeneration: number
  readonly observedState: VmObserved['state'] | null
  readonly observedError: string | null
  /** Number of observations that have changed the VM's row. */
  readonly observedCount: number
  readonly healthy: boolean
  readonly endpointHost: string | null
  readonly endpointPort: number | null
  /** Whether the VM's host was declared lost. */
  readonly hostLost: boolean
  readonly hostRemoved: boolean
  /**
   * Seconds that open requests get to finish after the VM has left the route. 0 if no requests were routed to the VM,
   * or if another VM has to wait for its volume or its removal, because no version serves requests in the meantime.
   */
  readonly drainSeconds: number
  /** Snapshot from which the VM resumes instead of booting. */
  readonly fromSnapshotId: string | null
  readonly fromRenew: boolean
  /** The only host that has the snapshot that the VM starts from. */
  readonly pinnedHostId: string | null
  /** The host that built the image, if the image is not in a registry; otherwise null. */
  readonly builtHostId: string | null
  /**
   * Whether the VM must start from the snapshot: then it waits for capacity on the snapshot's host instead of booting
   * on another host.
   */
  readonly fromRequired: boolean
  /** Whether a volume that the VM needs is not ready on its host yet. */
  readonly disksPending: boolean
  /** Reason why a volume of the VM could not be created; null if none has failed. */
  readonly diskFailure: string | null
  readonly restarts: number
  /** The app's firewall rules, in the order in which they apply. */
  readonly firewall: FirewallSpec
  readonly balloonTargetMib: number | null
  /** The VM's migration to another host; set while the source host should transfer the VM. */
  readonly outgoing: {
    readonly migrationId: string
    readonly uri: string | null
    /** Whether the VM is stopped for the migration instead of being migrated live. */
    readonly halts: boolean
    /** Whether the source host must wait for the control plane's permission before it pauses the guest. */
    readonly waits: boolean
    readonly volumes: readonly { readonly volumeId: string; readonly snapshots: readonly string[] }[] | null
  } | null
  /**
   * Whether a migration of the VM with its volumes is in progress. Then it is undecided which host has the current
   * content of the volumes.
   */
  readonly takesVolumes: boolean
}

const columns = `v.id, v.project_id AS "projectId", v.app_id AS "appId", a.name AS "appName", a.owner AS "appOwner",
  v.deployment_id AS "deploymentId",
  (SELECT jsonb_build_object('id', r.id, 'command', r.command) FROM run r WHERE r.id = v.run_id) AS run, v.host_id AS "hostId", v.generation, v.want, v.hypervisor,
  d.hypervisor AS "requestedHypervisor",
  (SELECT s.hypervisor FROM vm_snapshot s WHERE s.id = v.from_snapshot_id) AS "snapshotHypervisor", d.image, d.traceparent, d.port, a.health_check_path AS "healthCheckPath",
  a.kind AS "appKind", a.strategy = 'one-at-a-time' AS "oneAtATime", a.hosts AS "appHosts",
  ARRAY(SELECT c.host FROM registry_credential c WHERE c.project_id = v.project_id) AS "registryHosts", d.command, d.arguments, d.restart,
  v.vcpus, v.memory_mib AS "memoryMib", v.disk_mib AS "diskMib", v.ipv6_address AS "ipv6Address",
  v.seen_generation AS "observedGeneration", v.seen_state AS "observedState", v.seen_error AS "observedError",
  v.seen_count AS "observedCount", v.healthy, v.endpoint_host AS "endpointHost", v.endpoint_port AS "endpointPort", h.lost_at IS NOT NULL AS "hostLost",
  h.removed_at IS NOT NULL AS "hostRemoved",
  CASE WHEN (a.active_deployment_id = v.deployment_id OR d.canary_state = 'failed' OR a.strategy = 'one-at-a-time')
            AND NOT (a.strategy = 'one-at-a-time' AND a.desired_replicas < 2) AND a.scale_state = 'active' AND a.want = 'live' AND d.want = 'running'
            AND v.healthy AND NOT EXISTS (SELECT FROM vm_disk k WHERE k.vm_id = v.id AND NOT k.read_only)
       THEN a.drain_timeout ELSE 0 END AS "drainSeconds", v.from_snapshot_id AS "fromSnapshotId", v.from_renew AS "fromRenew",
  (SELECT b.host_id FROM build b WHERE b.app_id = substring(d.image FROM '^oci:app-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})')::uuid
   AND b.image = d.image ORDER BY b.id DESC LIMIT 1) AS "builtHostId",
  v.pinned_host_id AS "pinnedHostId", v.from_required AS "fromRequired", v.restarts,
  EXISTS (SELECT FROM vm_disk k JOIN volume o ON o.id = k.volume_id
          WHERE k.vm_id = v.id AND k.want = 'present' AND (o.state <> 'ready' OR EXISTS (
            SELECT FROM volume_snapshot s WHERE s.volume_id = o.id AND s.kind = 'restore' AND s.state = 'creating'))) AS "disksPending",
  (SELECT min('Volume ' || o.name || ' could not be created: ' || coalesce(o.error, 'its host did not say why')) FROM vm_disk k
   JOIN volume o ON o.id = k.volume_id WHERE k.vm_id = v.id AND k.want = 'present' AND o.state = 'failed') AS "diskFailure",
  jsonb_build_object('version', a.firewall_version, 'rules', coalesce(
    (SELECT jsonb_agg(jsonb_build_object('id', r.id, 'direction', r.direction, 'protocol', r.protocol,
       'portStart', r.port_start, 'action', r.action, 'cidr', r.cidr, 'portEnd',
       -- Protocols without ports are stored as 0 to 0, too.
       CASE WHEN r.port_end = 0 THEN 65535 ELSE r.port_end END) ORDER BY r.priority, r.id)
     FROM security_rule r WHERE r.app_id = a.id), '[]'),
     'ports', ARRAY(SELECT s.port FROM tcp_service s WHERE s.app_id = a.id
       UNION SELECT t.port FROM tls_service t WHERE t.app_id = a.id ORDER BY port)) AS firewall,
  v.balloon_target_mib AS "balloonTargetMib",
  EXISTS (SELECT FROM migration g WHERE g.vm_id = v.id AND g.ended_at IS NULL AND g.with_volumes AND g.state <> 'clearing') AS "takesVolumes",
  (SELECT jsonb_build_object('migrationId', g.id, 'uri', g.uri, 'halts', g.with_volumes AND g.method = 'stop-and-copy', 'waits', g.released_at IS NULL, 'volumes',
     (SELECT jsonb_agg(jsonb_build_object('volumeId', x.volume_id, 'snapshots', ${goingWith('x.volume_id')}) ORDER BY x.volume_id)
      FROM volume_move x WHERE x.migration_id = g.id)) FROM migration g
   WHERE g.vm_id = v.id AND g.state = 'copying' AND g.want = 'move' AND g.source_host_id = v.host_id) AS outgoing`
const joined = `FROM vm v JOIN deployment d ON d.id = v.deployment_id JOIN app a ON a.id = v.app_id
  LEFT JOIN host h ON h.id = v.host_id`

// The inner SELECT hides the array's length from the planner. Without it, PostgreSQL plans the query again for each
// call, which takes longer than executing it.
const vmsById = statement<Vm>('vms.byIds', `SELECT ${columns} ${joined} WHERE v.id = ANY((SELECT $1::uuid[])::uuid[])`)
const envOfDeployment = statement<{ name: string; value: Buffer }>(
  'vms.env',
  `SELECT name, value FROM deployment_env WHERE deployment_id = $1`,
)
const filesOfDeployment = statement<{ path: string; mode: number; content: Buffer | null; variable: string | null }>(
  'vms.files',
  `SELECT path, mode, content, variable FROM deployment_file WHERE deployment_id = $1 ORDER BY path`,
)
const insertVm = statement(
  'vms.insert',
  `INSERT INTO vm (id, project_id, app_id, deployment_id, vcpus, memory_mib, disk_mib, ipv6_address, from_snapshot_id,
     from_renew, pinned_host_id, from_required, run_id)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9::uuid IS NOT NULL, $10, $11, $12)`,
)
const setWant = statement<{ appId: string }>(
  'vms.setWant',
  `UPDATE vm SET want = $2, generation = generation + 1 WHERE id = $1 AND want <> $2 AND want <> 'absent'
   RETURNING app_id AS "appId"`,
)
// Requests the removal of all VMs of a lost host. Raising their generations makes the host refuse older desired states
// that are still in transit.
const abandonVms = statement<{ id: string; appId: string; deploymentId: string }>(
  'vms.abandon',
  `WITH held AS (SELECT id FROM vm WHERE host_id = $1 AND want <> 'absent' ORDER BY id FOR NO KEY UPDATE)
   UPDATE vm SET want = 'absent', healthy = false, generation = generation + 1 FROM held WHERE vm.id = held.id
   RETURNING vm.id, app_id AS "appId", deployment_id AS "deploymentId"`,
)
const deploymentsOfApp = statement<{ id: string }>(
  'vms.deploymentsOfApp',
  `SELECT id FROM deployment WHERE app_id = $1 AND outcome IS NULL`,
)
const deploymentsOfHost = statement<{ id: string }>(
  'vms.deploymentsOnHost',
  `SELECT DISTINCT deployment_id AS id FROM vm WHERE host_id = $1`,
)
const vmsOfHost = statement<{ id: string }>('vms.onHost', `SELECT id FROM vm WHERE host_id = $1`)
// Raises the generation even of a VM that is being removed. Its host then receives the removal again.
const raiseAny = statement('vms.raise', `UPDATE vm SET generation = generation + 1 WHERE id = $1`)
const lockVm = statement<{ id: string }>('vms.lock', `SELECT id FROM vm WHERE id = $1 FOR NO KEY UPDATE`)
const restoreVm = statement(
  'vms.restore',
  `UPDATE vm SET from_snapshot_id = $2, from_renew = false, restarts = restarts + 1, generation = generation + 1
   WHERE id = $1 AND want <> 'absent'`,
)
const keepAsItIs = statement(
  'vms.giveUpRestore',
  `UPDATE vm SET from_snapshot_id = NULL, generation = generation + 1
   WHERE id = $1 AND from_snapshot_id IS NOT NULL AND NOT from_renew AND want <> 'absent'`,
)
const setBalloonTarget = statement<{ id: string }>(
  'vms.setBalloon',
  `WITH held AS (
     SELECT id FROM vm WHERE deployment_id = $1 AND want <> 'absent' AND balloon_target_mib IS DISTINCT FROM $2
     ORDER BY id FOR NO KEY UPDATE)
   UPDATE vm SET balloon_target_mib = $2, generation = generation + 1 FROM held WHERE vm.id = held.id RETURNING vm.id`,
)
// Deletes the VM's row, but records that its host still has its log lines.
const deleteVm = statement(
  'vms.delete',
  `WITH unpaid AS (UPDATE usage_span SET ended_at = now() WHERE vm_id = $1 AND ended_at IS NULL),
   logged AS (${retainLog('v.id = $1')})
   DELETE FROM vm WHERE id = $1`,
)

export interface NewVm {
  readonly id: string
  readonly projectId: string
  readonly appId: string
  readonly deploymentId: string
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
  readonly ipv6Address: string
  /** Snapshot from which the VM starts, and the host that has the snapshot. */
  readonly from?: StartFrom
  /** The run to which the VM belongs; if undefined, the VM is a replica of the deployment. */
  readonly runId?: string
}

export interface StartFrom {
  readonly snapshotId: string
  readonly hostId: string
  /**
   * True: the VM waits for capacity on the snapshot's host. False: if that host has no capacity, the VM boots on any
   * host.
   */
  readonly required: boolean
}

export const byIds = (sql: Sql, ids: readonly string[]) => sql.rows(vmsById, [ids])
export const byId = (sql: Sql, id: string) => sql.maybe(vmsById, [[id]])
/**
 * Returns the deployment's files. Contents are sealed with purpose `app.file`; a file without content has the value of
 * its variable.
 */
export const sealedFiles = (sql: Sql, deploymentId: string) => sql.rows(filesOfDeployment, [deploymentId])
/** Returns the deployment's environment. Values are sealed with purpose `app.env`. */
export const sealedEnv = (sql: Sql, deploymentId: string) => sql.rows(envOfDeployment, [deploymentId])
export const insert = (tx: Tx, vm: NewVm) =>
  tx.run(insertVm, [
    vm.id,
    vm.projectId,
    vm.appId,
    vm.deploymentId,
    vm.vcpus,
    vm.memoryMib,
    vm.diskMib,
    vm.ipv6Address,
    vm.from?.snapshotId ?? null,
    vm.from?.hostId ?? null,
    vm.from?.required ?? false,
    vm.runId ?? null,
  ])
export const raise = (tx: Tx, id: string) => tx.run(raiseAny, [id])
export const remove = (tx: Tx, id: string) => tx.run(deleteVm, [id])
export const lock = (tx: Tx, id: string) => tx.rows(lockVm, [id])
/** Makes the VM start again from a snapshot on its host. */
export const restore = (tx: Tx, id: string, snapshotId: string) => tx.run(restoreVm, [id, snapshotId])
/** Cancels a restore of the VM, which then boots with the current content of its volumes. */
export const giveUpRestore = (tx: Tx, id: string) => tx.run(keepAsItIs, [id])
/** Sets the memory target of the deployment's VMs. Returns the ids of the VMs for which it changed. */
export const setBalloon = async (tx: Tx, deploymentId: string, targetMib: number) =>
  (await tx.rows(setBalloonTarget, [deploymentId, targetMib])).map(row => row.id)
/**
 * Changes the VM's desired state, unless it is already `absent`, which is final. Returns the app's id if the state
 * changed.
 */
export const desired = async (tx: Tx, id: string, want: Vm['want']) => (await tx.maybe(setWant, [id, want]))?.appId
export const abandonOnHost = (tx: Tx, hostId: string) => tx.rows(abandonVms, [hostId])
export const deploymentsOf = async (sql: Sql, appId: string) =>
  (await sql.rows(deploymentsOfApp, [appId])).map(row => row.id)
export const deploymentsOnHost = async (sql: Sql, hostId: string) =>
  (await sql.rows(deploymentsOfHost, [hostId])).map(row => row.id)
export const idsOnHost = async (sql: Sql, hostId: string) => (await sql.rows(vmsOfHost, [hostId])).map(row => row.id)

/** Placement: assigns hosts to VMs, and reserves their resources. */
import type { HypervisorName } from '../../contract/agent.ts'
import { type Sql, type Tx, statement } from '../../db/db.ts'

// Serializes placements of a deployment's VMs. A deployment that another transaction has locked is skipped, and its VMs
// are placed later, so that this transaction never waits for a lock while it holds others.
const lockDeployments = statement<{ id: string }>(
  'vms.lockDeployments',
  `SELECT id FROM deployment WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED`,
)
const hostsOfDeployments = statement<{ deploymentId: string; hostId: string }>(
  'vms.hostsOfDeployments',
  `SELECT DISTINCT deployment_id AS "deploymentId", host_id AS "hostId" FROM vm
   WHERE deployment_id = ANY($1::uuid[]) AND host_id IS NOT NULL AND want <> 'absent'`,
)
/**
 * Places VMs. $1: their ids, $2: the host of each, $3: its hypervisor. The statement also checks capacity: a VM gets
 * its host only if the host has capacity for it in addition to the VMs before it in the list. Hosts are locked in id
 * order and locked VMs are skipped, so two placements never deadlock. The billing of a VM starts with this statement
 * (control/usage).
 */
const placeVms = statement<{ id: string }>(
  'vms.place',
  `WITH requested AS (
     SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[]) WITH ORDINALITY AS w(vm_id, host_id, hypervisor, n)
   ), room AS (
     SELECT id, vcpus - used_vcpus AS vcpus, memory_mib - used_memory_mib AS memory_mib, disk_mib - used_disk_mib AS disk_mib
     FROM host WHERE id = ANY($2) AND NOT cordoned AND lost_at IS NULL AND removed_at IS NULL
     ORDER BY id FOR NO KEY UPDATE
   ), free AS (
     SELECT v.id, v.vcpus, v.memory_mib, v.disk_mib, w.host_id, w.hypervisor, w.n FROM requested w JOIN vm v ON v.id = w.vm_id
     WHERE v.host_id IS NULL AND v.want <> 'absent' FOR NO KEY UPDATE OF v SKIP LOCKED
   ), queue AS (
     SELECT free.*, sum(vcpus) OVER line AS vcpus_so_far, sum(memory_mib) OVER line AS memory_so_far,
       sum(disk_mib) OVER line AS disk_so_far
     FROM free WINDOW line AS (PARTITION BY host_id ORDER BY n)
   ), fit AS (
     SELECT q.* FROM queue q JOIN room r ON r.id = q.host_id
     WHERE q.vcpus_so_far <= r.vcpus AND q.memory_so_far <= r.memory_mib AND q.disk_so_far <= r.disk_mib
   ), reserved AS (
     UPDATE host h SET used_vcpus = h.used_vcpus + t.vcpus, used_memory_mib = h.used_memory_mib + t.memory_mib,
       used_disk_mib = h.used_disk_mib + t.disk_mib
     FROM (SELECT host_id, sum(vcpus)::int AS vcpus, sum(memory_mib)::int AS memory_mib, sum(disk_mib)::bigint AS disk_mib
           FROM fit GROUP BY host_id) t
     WHERE h.id = t.host_id AND h.used_vcpus + t.vcpus <= h.vcpus AND h.used_memory_mib + t.memory_mib <= h.memory_mib
       AND h.used_disk_mib + t.disk_mib <= h.disk_mib
     RETURNING h.id
   ), placed AS (
     UPDATE vm v SET host_id = f.host_id, hypervisor = f.hypervisor, generation = v.generation + 1, placement_note = NULL,
       placed_at = now()
     FROM fit f JOIN reserved r ON r.id = f.host_id WHERE v.id = f.id
     RETURNING v.id, v.app_id, v.project_id, v.vcpus, v.memory_mib
   ), paid AS (
     INSERT INTO usage_span (vm_id, project_id, vcpus, memory_mib) SELECT id, project_id, vcpus, memory_mib FROM placed p
     WHERE NOT EXISTS (SELECT FROM branch b WHERE b.app_id = p.app_id AND b.kind = 'spare')
   )
   SELECT id FROM placed`,
)
const notePlacement = statement(
  'vms.notePlacement',
  `UPDATE vm SET placement_note = $2 WHERE id = $1 AND placement_note IS DISTINCT FROM $2`,
)
const waitingForHost = statement<{ id: string }>(
  'vms.waitingForHost',
  `SELECT id FROM machine WHERE kind = 'vm' AND phase = 'placing' ORDER BY entered_at LIMIT $1`,
)
const forgetSnapshot = statement(
  'vms.forgetSnapshot',
  `UPDATE vm SET from_snapshot_id = NULL, from_renew = false, pinned_host_id = NULL WHERE id = $1 AND host_id IS NULL`,
)

/**
 * Locks the deployments, and returns those that could be locked. No other transaction places the VMs of these
 * deployments until this transaction ends.
 */
export const claimPlacing = async (tx: Tx, deploymentIds: readonly string[]) =>
  new Set((await tx.rows(lockDeployments, [deploymentIds])).map(row => row.id))
/** Returns the hosts on which each deployment has VMs. */
export async function hostsByDeployment(sql: Sql, ids: readonly string[]): Promise<Map<string, Set<string>>> {
  const hosts = new Map(ids.map(id => [id, new Set<string>()]))
  for (const row of await sql.rows(hostsOfDeployments, [ids])) hosts.get(row.deploymentId)?.add(row.hostId)
  return hosts
}
/**
 * Assigns a host to each VM and reserves the resources there. Returns the ids of the placed VMs; the hosts of the
 * other VMs had no capacity, or another transaction had locked the VM.
 */
export const place = async (
  tx: Tx,
  desiredStates: readonly { readonly vmId: string; readonly hostId: string; readonly hypervisor: HypervisorName }[],
): Promise<Set<string>> =>
  new Set(
    (
      await tx.rows(placeVms, [
        desiredStates.map(one => one.vmId),
        desiredStates.map(one => one.hostId),
        desiredStates.map(one => one.hypervisor),
      ])
    ).map(row => row.id),
  )
/** Makes the VM boot instead of starting from a snapshot, because the snapshot's host is full. */
export const bootInstead = (tx: Tx, id: string) => tx.run(forgetSnapshot, [id])
export const explainPlacement = (tx: Tx, id: string, note: string) => tx.run(notePlacement, [id, note])
/** Returns the ids of VMs that wait for a host, the longest wait first. */
export const waiting = async (sql: Sql, limit: number) => (await sql.rows(waitingForHost, [limit])).map(row => row.id)

/**
 * SQL for a WITH clause of a statement that moves or deletes a VM: records which host has the VM's log lines before the
 * VM leaves it. Both parts of the statement see the row as it was before.
 * @param condition selects the VM `v`
 */
export const retainLog = (condition: string) =>
  `INSERT INTO vm_log (host_id, vm_id, app_id, deployment_id, job_id, created_at)
     SELECT v.host_id, v.id, v.app_id, v.deployment_id, d.job_id, v.created_at
     FROM vm v JOIN deployment d ON d.id = v.deployment_id WHERE ${condition} AND v.host_id IS NOT NULL
     ON CONFLICT (host_id, vm_id) DO UPDATE SET ended_at = now()`

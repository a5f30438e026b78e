/**
 * SQL for the WITH clause of a statement that moves or deletes a VM. Records which host has the VM's log lines,
 * because the VM's row will no longer name this host. It sees the VM's row as it was before the statement.
 * @param condition SQL condition that selects the VM `v`
 */
export const retainLog = (condition: string) =>
  `INSERT INTO vm_log (host_id, vm_id, app_id, deployment_id, job_id, created_at)
     SELECT v.host_id, v.id, v.app_id, v.deployment_id, d.job_id, v.created_at
     FROM vm v JOIN deployment d ON d.id = v.deployment_id WHERE ${condition} AND v.host_id IS NOT NULL
     ON CONFLICT (host_id, vm_id) DO UPDATE SET ended_at = now()`

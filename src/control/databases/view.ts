import { hostKeyOptions } from '../bastion/index.ts'
import type { Vault } from '../../lib/vault.ts'
import type { BackupState } from './backup-store.ts'
import { openTarget, targetName } from './backup-target.ts'
import type { History } from './history.ts'
import { branchStatusOf, hostOf, localPortOf, ownerRole, statusOf } from './rules.ts'
import type {
  Database as DatabaseShape,
  DatabaseBackupInfo,
  DatabaseBranch,
  DatabaseConnection,
  DatabaseSnapshot as SnapshotShape,
} from './resources.ts'
import type { DatabaseSnapshot } from './snapshot-store.ts'
import type { Branch, Database } from './store.ts'

/** Renders a database. @param current the current branch; undefined while the last branch is being removed */
export const databaseView = (d: Database, current: Branch | undefined): DatabaseShape => ({
  id: d.id,
  name: d.name,
  engine: d.engine,
  status: current ? statusOf(current) : 'deleting',
  vcpus: d.vcpus,
  memory_mib: d.memoryMib,
  disk_mib: d.diskMib,
  postgres_version: d.version,
  storage_tenant_id: d.tenantId,
  storage_timeline_id: current?.timelineId ?? '',
  tenant_gen: d.tenantGen,
  created_at: d.createdAt.toISOString(),
  updated_at: d.updatedAt.toISOString(),
  settings: d.settings,
  message: current?.error ?? null,
})

const storageOf = (b: Branch) => ({
  storage_tenant_id: b.database.tenantId,
  storage_timeline_id: b.timelineId,
  tenant_gen: b.database.tenantGen,
  created_at: b.createdAt.toISOString(),
  updated_at: b.updatedAt.toISOString(),
})

export const branchView = (b: Branch): DatabaseBranch => ({
  database_id: b.databaseId,
  database_name: b.databaseName,
  branch_name: b.name,
  is_current: b.isCurrent,
  status: branchStatusOf(b),
  ...storageOf(b),
})

/** Describes how to connect to a branch. @param ssh address of the bastion */
export function connectionView(
  b: Branch,
  password: string,
  ssh: { readonly host: string; readonly port: number; readonly hostKeys: readonly string[] },
): DatabaseConnection {
  const host = hostOf(b.databaseName, b.projectSlug, b.isCurrent ? undefined : b.name)
  const user = tunnelUser(b)
  const local = localPortOf(user)
  const url = `postgresql://${ownerRole}:${password}@127.0.0.1:${local}/${b.databaseName}?sslmode=require`
  return {
    database_id: b.databaseId,
    database_name: b.databaseName,
    database_host: host,
    database_port: databasePort,
    database_user: ownerRole,
    psql_command: `psql '${url}'`,
    ssh_host: ssh.host,
    ssh_port: ssh.port,
    ssh_user: user,
    ssh_host_keys: [...ssh.hostKeys],
    ssh_tunnel_command:
      `ssh -N -o ExitOnForwardFailure=yes ${hostKeyOptions(ssh.hostKeys)} -p ${ssh.port} ` +
      `-L 127.0.0.1:${local}:${host}:${databasePort} ${user}@${ssh.host}`,
  }
}

/**
 * Returns the user name for SSH logins. A branch that is not current has its own id as the name, so that the name stays
 * valid after a promotion.
 */
export const tunnelUser = (b: Pick<Branch, 'id' | 'databaseId' | 'isCurrent'>) => (b.isCurrent ? b.databaseId : b.id)

/** The port of the database to which clients connect through the bastion. */
export const databasePort = 5432

const snapshotStatuses = { creating: 'creating', ready: 'ready', failed: 'failed' } as const

export const snapshotView = (s: DatabaseSnapshot, branchName: string): SnapshotShape => ({
  name: s.name,
  status: snapshotStatuses[s.state],
  size_bytes: s.sizeBytes,
  created_at: s.createdAt.toISOString(),
  branch_name: branchName,
  kind: s.kind,
  error: s.error,
})

/**
 * Renders the backups of a branch. `retention_valid` is the result of the last restore drill, or whether the page
 * server currently has the history.
 */
export function backupView(
  b: Branch,
  observed: BackupState | undefined,
  vault: Vault,
  history?: History,
): DatabaseBackupInfo {
  // A backup from before the last restore does not count, even before the next check of the backups.
  const isOld = observed?.newestAt && b.restoredAt && observed.newestAt < b.restoredAt
  const backup = observed && isOld ? { ...observed, newestAt: null } : observed
  return {
    database_id: b.databaseId,
    database_name: b.databaseName,
    backup_strategy: history ? 'page server history' : 'full backups and continuous log archive (pgBackRest)',
    recovery_mode: 'point_in_time',
    retention_valid: history ? history.state === 'kept' : (backup?.drillPassed ?? false),
    status: history ? historyStatuses[history.state] : backupStatusOf(backup),
    ...storageOf(b),
    newest_backup_at: backup?.newestAt?.toISOString() ?? null,
    backups: backup?.backups ?? 0,
    size_bytes: history?.sizeBytes ?? backup?.sizeBytes ?? 0,
    checked_at: (history?.checkedAt ?? backup?.drilledAt)?.toISOString() ?? null,
    target: b.backupTarget === null ? 'volume' : targetName(openTarget(vault, b.backupTarget)),
    error: history?.error ?? backup?.error ?? backup?.drillError ?? null,
  }
}

const historyStatuses = { none: 'pending', kept: 'ready', lost: 'failed' } as const

/**
 * Returns the status of a branch's backups. `pending`: no backup yet. `ready`: there is a backup that was not tested.
 * `verified`, `failed`: result of the last backup or restore drill.
 */
export function backupStatusOf(backup: BackupState | undefined): 'pending' | 'ready' | 'verified' | 'failed' {
  if (!backup) return 'pending'
  if (backup.error !== null || backup.drillPassed === false) return 'failed'
  if (backup.newestAt === null) return 'pending'
  return backup.drillPassed ? 'verified' : 'ready'
}

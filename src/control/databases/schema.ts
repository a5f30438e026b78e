import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import {
  bool,
  dateTime,
  fileName,
  int64,
  labelName,
  list,
  maybe,
  nullable,
  resource,
  stringMap,
  text,
  uint16,
  uint32,
  uuid,
} from '../http/types.ts'

export const Database = resource('Database', {
  id: uuid(),
  name: text(),
  engine: text(),
  status: text({
    description: '`creating`, `running`, `suspended`, `restarting`, `restoring`, `unavailable`, `failed`, `deleting`',
  }),
  vcpus: int64(),
  memory_mib: int64(),
  disk_mib: int64(),
  postgres_version: uint16(),
  storage_tenant_id: text(),
  storage_timeline_id: text(),
  tenant_gen: uint32(),
  created_at: dateTime(),
  updated_at: dateTime(),
  settings: Type.Optional(stringMap({ description: 'Server settings by name.' })),
  message: Type.Optional(nullable(text({ description: 'Why it has failed, or does not answer.' }))),
})
export type Database = Static<typeof Database>

export const DatabaseConnection = resource('DatabaseConnection', {
  database_id: uuid(),
  database_name: text(),
  database_host: text(),
  database_port: uint16(),
  database_user: text(),
  psql_command: text({ description: 'Works as it is when pasted.' }),
  ssh_host: text(),
  ssh_port: uint16(),
  ssh_user: text(),
  ssh_tunnel_command: text({ description: 'Works as it is when pasted.' }),
})
export type DatabaseConnection = Static<typeof DatabaseConnection>

const ofStorage = {
  storage_tenant_id: nullable(text()),
  storage_timeline_id: nullable(text()),
  tenant_gen: nullable(int64()),
  created_at: dateTime(),
  updated_at: dateTime(),
}

export const DatabaseBranch = resource('DatabaseBranch', {
  database_id: uuid(),
  database_name: text(),
  branch_name: text(),
  is_current: bool(),
  status: text({ description: '`creating`, `ready`, `restoring`, `failed` or `deleting`' }),
  ...ofStorage,
})
export type DatabaseBranch = Static<typeof DatabaseBranch>

export const DatabaseBackupInfo = resource('DatabaseBackupInfo', {
  database_id: uuid(),
  database_name: text(),
  backup_strategy: text(),
  recovery_mode: text(),
  retention_valid: bool({ description: 'Whether the newest backup was restored and checked.' }),
  status: text(),
  ...ofStorage,
  newest_backup_at: Type.Optional(nullable(dateTime())),
  backups: Type.Optional(int64({ description: 'Whole backups that are kept.' })),
  size_bytes: Type.Optional(int64()),
  checked_at: Type.Optional(nullable(dateTime({ description: 'When the newest restore drill ended.' }))),
  error: Type.Optional(nullable(text({ description: 'Why the newest backup or restore drill failed.' }))),
})
export type DatabaseBackupInfo = Static<typeof DatabaseBackupInfo>

export const DatabaseSnapshot = resource('DatabaseSnapshot', {
  name: text(),
  status: text({ description: '`creating`, `ready` or `failed`' }),
  size_bytes: int64(),
  created_at: dateTime(),
  branch_name: Type.Optional(text()),
  kind: Type.Optional(text({ description: '`user`, or `restore`: the state before a restore, kept by itself.' })),
  error: Type.Optional(nullable(text())),
})
export type DatabaseSnapshot = Static<typeof DatabaseSnapshot>

export const DatabaseSnapshotAction = resource('DatabaseSnapshotAction', { message: text(), success: bool() })
export type DatabaseSnapshotAction = Static<typeof DatabaseSnapshotAction>

const shared = { tag: 'Databases', auth: 'bearer', project: 'selected' } as const
const params = Type.Object({ id: uuid() })

export const databaseOperations = operations({
  listDatabases: {
    method: 'GET',
    path: '/v1/databases',
    summary: 'Databases of the project, newest first',
    ...shared,
    scope: 'read',
    answer: list(Database),
  },
  createDatabase: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/databases',
    summary: 'Creates a managed database in a VM of its own',
    ...shared,
    scope: 'write',
    body: resource('CreateDatabaseRequest', {
      name: labelName(),
      engine: text({ minLength: 1, maxLength: 40, description: '`postgres`' }),
      disk_mib: maybe(uint32()),
      memory_mib: maybe(uint32()),
      postgres_version: maybe(uint16()),
      settings: maybe(stringMap({ maxProperties: 100, description: 'Server settings by name.' })),
      vcpus: maybe(uint32()),
    }),
    answer: Database,
  },
  deleteDatabase: {
    method: 'DELETE',
    path: '/v1/databases/{id}',
    summary: 'Deletes a database with its branches and backups',
    ...shared,
    scope: 'write',
    params,
    answer: Type.Null(),
  },
  getDatabase: {
    addition: true,
    method: 'GET',
    path: '/v1/databases/{id}',
    summary: 'One database',
    ...shared,
    scope: 'read',
    params,
    answer: Database,
  },
  updateDatabase: {
    addition: true,
    method: 'PATCH',
    path: '/v1/databases/{id}',
    summary: 'Changes size or settings, which restarts it; suspends and resumes it',
    ...shared,
    scope: 'write',
    params,
    body: resource('UpdateDatabaseRequest', {
      vcpus: maybe(uint32()),
      memory_mib: maybe(uint32()),
      settings: maybe(stringMap({ maxProperties: 100, description: 'All of them: what is left out is reset.' })),
      suspended: maybe(bool({ description: 'True: its VMs stop, its disks stay.' })),
    }),
    answer: Database,
  },
  streamDatabaseLogs: {
    addition: true,
    method: 'GET',
    path: '/v1/databases/{id}/logs/stream',
    summary: 'What the server of the current branch writes',
    ...shared,
    scope: 'read',
    params,
    query: Type.Object({
      tail: Type.Optional(int64({ minimum: 0, maximum: 10_000, description: 'Lines of the past.' })),
    }),
    answer: 'stream',
  },
  getDatabaseConnection: {
    secretAnswer: true,
    method: 'GET',
    path: '/v1/databases/{id}/connection',
    summary: 'How to connect, with commands to paste',
    ...shared,
    scope: 'write',
    params,
    query: Type.Object({ branch: Type.Optional(text({ maxLength: 40, description: 'Default: the current one.' })) }),
    answer: DatabaseConnection,
  },
  listDatabaseBranches: {
    method: 'GET',
    path: '/v1/databases/{id}/branches',
    summary: 'Branches of a database',
    ...shared,
    scope: 'read',
    params,
    answer: list(DatabaseBranch),
  },
  createDatabaseBranch: {
    addition: true,
    throttle: 'create',
    method: 'POST',
    path: '/v1/databases/{id}/branches',
    summary: 'A branch with a VM of its own: of a snapshot, or of the current branch as it was at an instant',
    ...shared,
    scope: 'write',
    params,
    body: resource('CreateDatabaseBranchRequest', {
      name: labelName(),
      from_snapshot: maybe(text({ minLength: 1, maxLength: 100 })),
      at: maybe(text({ maxLength: 40, description: 'An instant (RFC 3339), or `latest`; played from the backups.' })),
    }),
    answer: DatabaseBranch,
  },
  deleteDatabaseBranch: {
    addition: true,
    method: 'DELETE',
    path: '/v1/databases/{id}/branches/{branch_name}',
    summary: 'Deletes a branch, other than the current one, with its snapshots and backups',
    ...shared,
    scope: 'write',
    params: Type.Object({ id: uuid(), branch_name: text() }),
    answer: DatabaseBranch,
  },
  promoteDatabaseBranch: {
    addition: true,
    method: 'POST',
    path: '/v1/databases/{id}/branches/{branch_name}/promote',
    summary: 'Makes a branch the current one',
    ...shared,
    scope: 'write',
    params: Type.Object({ id: uuid(), branch_name: text() }),
    answer: DatabaseBranch,
  },
  getDatabaseBackups: {
    method: 'GET',
    path: '/v1/databases/{id}/backups',
    summary: 'How a database is backed up, and whether that works',
    ...shared,
    scope: 'read',
    params,
    answer: DatabaseBackupInfo,
  },
  listDatabaseSnapshots: {
    method: 'GET',
    path: '/v1/databases/{id}/backups/snapshots',
    summary: 'Backup snapshots of a database, newest first',
    ...shared,
    scope: 'read',
    params,
    answer: list(DatabaseSnapshot),
  },
  createDatabaseSnapshot: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/databases/{id}/backups/snapshots',
    summary: 'Takes a backup snapshot',
    ...shared,
    scope: 'write',
    params,
    body: resource('CreateDatabaseSnapshotRequest', {
      name: fileName(),
    }),
    answer: DatabaseSnapshot,
  },
  restoreDatabase: {
    method: 'POST',
    path: '/v1/databases/{id}/backups/restore',
    summary: 'Puts a database back to a snapshot; the state before is kept as another snapshot',
    ...shared,
    scope: 'write',
    params,
    body: resource('RestoreDatabaseRequest', { snapshot_name: text({ minLength: 1, maxLength: 100 }) }),
    answer: DatabaseSnapshotAction,
  },
  deleteDatabaseSnapshot: {
    method: 'DELETE',
    path: '/v1/databases/{id}/backups/snapshots/{snapshot_name}',
    summary: 'Deletes a backup snapshot',
    ...shared,
    scope: 'write',
    params: Type.Object({ id: uuid(), snapshot_name: text() }),
    answer: DatabaseSnapshotAction,
  },
})

const TenantGeneration = resource('TenantGeneration', {
  id: text({ maxLength: 100 }),
  gen: uint32(),
})
const ReAttachedTenant = resource('ReAttachedTenant', {
  id: text(),
  gen: uint32(),
  mode: Type.Optional(text({ description: '`AttachedSingle`' })),
  stripe_size: Type.Optional(uint32()),
})

const upcall = { tag: 'Storage upcalls', auth: 'none', project: 'none', throttle: 'machine' } as const

/** What a Neon page server asks its control plane (Neon RFC 025, `pageserver_api/src/upcall_api.rs`). */
export const upcallOperations = operations({
  reAttach: {
    method: 'POST',
    path: '/re-attach',
    summary: 'A storage node has started: raises and returns the generation of each tenant attached to it',
    ...upcall,
    scope: 'write',
    body: resource('ReAttachRequest', { node_id: Type.Optional(int64()) }),
    bodyRequired: false,
    answer: resource('ReAttachResponse', { tenants: list(ReAttachedTenant) }),
  },
  validateGenerations: {
    method: 'POST',
    path: '/validate',
    summary: 'Whether these generations are still the current ones',
    ...upcall,
    scope: 'read',
    body: resource('ValidateRequest', { tenants: list(TenantGeneration, { maxItems: 10_000 }) }),
    answer: resource('ValidateResponse', {
      tenants: list(resource('TenantValidity', { id: text(), valid: bool() })),
    }),
    unaudited: true,
  },
})

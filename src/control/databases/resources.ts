/** What the operations of databases speak of. */
import { type Static, Type } from 'typebox'
import {
  bool,
  dateTime,
  int64,
  list,
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

export const TunnelPassword = resource('TunnelPassword', {
  ssh_user: text(),
  password: text({ description: 'For one login within a minute, to this database alone.' }),
  expires_at: dateTime(),
})

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
  ssh_host_keys: list(text(), {
    description: 'Keys of the SSH bastions, as in known_hosts: `ssh-ed25519 AAAA...`. Accept no other.',
  }),
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
  status: text({
    description:
      '`creating`, `ready` (a client that connects now is served), `suspended`, `restarting`, `restoring`, `unavailable`, `failed` or `deleting`',
  }),
  ...ofStorage,
})
export type DatabaseBranch = Static<typeof DatabaseBranch>

export const DatabaseBackupInfo = resource('DatabaseBackupInfo', {
  database_id: uuid(),
  database_name: text(),
  backup_strategy: text(),
  recovery_mode: text(),
  retention_valid: bool({
    description:
      'Whether the newest backup was restored and checked; on a page server, whether it has the history now.',
  }),
  status: text(),
  ...ofStorage,
  newest_backup_at: Type.Optional(nullable(dateTime())),
  backups: Type.Optional(int64({ description: 'Whole backups that are kept.' })),
  size_bytes: Type.Optional(int64()),
  checked_at: Type.Optional(nullable(dateTime({ description: 'When the newest restore drill ended.' }))),
  target: Type.Optional(text({ description: '`volume`, or `s3://bucket/prefix`' })),
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

export const TenantGeneration = resource('TenantGeneration', {
  id: text({ maxLength: 100 }),
  gen: uint32(),
})
export const ReAttachedTenant = resource('ReAttachedTenant', {
  id: text(),
  gen: uint32(),
  mode: Type.Optional(text({ description: '`AttachedSingle`' })),
  stripe_size: Type.Optional(uint32()),
})

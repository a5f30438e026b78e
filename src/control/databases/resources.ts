/** Resources of the database operations. */
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

const at = (description: string) => dateTime({ description })
const databaseId = () => uuid({ description: 'Id of the database.' })
const databaseName = () => text({ description: 'Name of the database.', examples: ['orders'] })
const tenantExample = '3f6d0c4f2a1097e08f003f6d0c4f2a10'
const timelineExample = '7c1a7d7e8f003f6d0c4f2a1097e0f3a1'
const bastionKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIL0yVbvlWAYkKYBwk2jmj7l5rSw0yVbvlWAYkKYBwk2j'

export const Database = resource(
  'Database',
  {
    id: uuid({ description: 'Id of the database, used in paths.' }),
    name: text({ description: 'Name of the database; unique in the project.', examples: ['orders'] }),
    engine: text({ description: 'Engine of the database: `postgres`.', examples: ['postgres'] }),
    status: text({
      description:
        'Status of the current branch: `creating`, `running`, `suspended`, `restarting`, `restoring`, `unavailable`, `failed` or `deleting`.',
      examples: ['running'],
    }),
    vcpus: int64({ description: 'Virtual CPUs of its VM.', examples: [1] }),
    memory_mib: int64({ description: 'Memory of its VM in MiB.', examples: [1024] }),
    disk_mib: int64({ description: 'Disk for the data in MiB.', examples: [10_240] }),
    postgres_version: uint16({ description: 'Major version of PostgreSQL.', examples: [17] }),
    storage_tenant_id: text({
      description: 'Tenant of the database on the page server, 32 hexadecimal digits.',
      examples: [tenantExample],
    }),
    storage_timeline_id: text({
      description: 'Timeline of the current branch on the page server; empty if none.',
      examples: [timelineExample],
    }),
    tenant_gen: uint32({
      description: 'Generation of the tenant; grows when another node attaches it.',
      examples: [1],
    }),
    created_at: at('When it was created.'),
    updated_at: at('When it last changed.'),
    settings: Type.Optional(
      stringMap({
        description: 'Settings of the server that differ from the defaults, by name.',
        examples: [{ work_mem: '8MB' }],
      }),
    ),
    message: Type.Optional(
      nullable(
        text({
          description: 'Why the database failed or does not accept connections; null if it works.',
          examples: [null, 'The host has no room for its disk.'],
        }),
      ),
    ),
  },
  { description: 'A managed database with branches and backups.' },
)
export type Database = Static<typeof Database>

export const TunnelPassword = resource(
  'TunnelPassword',
  {
    ssh_user: text({
      description: 'User name of the SSH login.',
      examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
    }),
    password: text({
      description: 'Valid for one login within a minute, to this database only.',
      examples: ['m8Kq-2vTz-9xWc'],
    }),
    expires_at: at('When the password expires.'),
  },
  { description: 'A password for the SSH bastion.' },
)

export const DatabaseConnection = resource(
  'DatabaseConnection',
  {
    database_id: databaseId(),
    database_name: text({ description: 'Name of the database, also on its server.', examples: ['orders'] }),
    database_host: text({
      description: 'Host name of the server inside the private network.',
      examples: ['orders.blue.internal'],
    }),
    database_port: uint16({ description: 'Port of the server.', examples: [5432] }),
    database_user: text({ description: 'Role that owns the database.', examples: ['mote'] }),
    psql_command: text({
      description: 'Connects through the tunnel; ready to paste. Contains the password.',
      examples: ["psql 'postgresql://mote:secret@127.0.0.1:54321/orders?sslmode=require'"],
    }),
    ssh_host: text({ description: 'Host name of the SSH bastion.', examples: ['bastion.mote.example'] }),
    ssh_port: uint16({ description: 'Port of the SSH bastion.', examples: [2222] }),
    ssh_user: text({
      description: 'User name of the SSH login.',
      examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
    }),
    ssh_tunnel_command: text({
      description: 'Opens the tunnel; ready to paste.',
      examples: ['ssh -N -p 2222 -L 127.0.0.1:54321:orders.blue.internal:5432 0197e0f3@bastion.mote.example'],
    }),
    ssh_host_keys: list(text({ examples: [bastionKey] }), {
      description: 'Host keys of the SSH bastions, as in known_hosts: `ssh-ed25519 AAAA...`. Accept no other.',
    }),
  },
  { description: 'How to connect to a branch of a database.' },
)
export type DatabaseConnection = Static<typeof DatabaseConnection>

const ofStorage = {
  storage_tenant_id: nullable(
    text({ description: 'Tenant of the database on the page server; null if none.', examples: [tenantExample] }),
  ),
  storage_timeline_id: nullable(
    text({ description: 'Timeline of the branch on the page server; null if none.', examples: [timelineExample] }),
  ),
  tenant_gen: nullable(int64({ description: 'Generation of the tenant; null without a tenant.', examples: [1] })),
  created_at: at('When it was created.'),
  updated_at: at('When it last changed.'),
}

export const DatabaseBranch = resource(
  'DatabaseBranch',
  {
    database_id: databaseId(),
    database_name: databaseName(),
    branch_name: text({ description: 'Name of the branch; unique in its database.', examples: ['main'] }),
    is_current: bool({ description: 'Whether the host name of the database points to the branch.' }),
    status: text({
      description:
        '`creating`, `ready` (accepts connections), `suspended`, `restarting`, `restoring`, `unavailable`, `failed` or `deleting`.',
      examples: ['ready'],
    }),
    ...ofStorage,
  },
  { description: "A branch of a database's history, with its own VM." },
)
export type DatabaseBranch = Static<typeof DatabaseBranch>

export const DatabaseBackupInfo = resource(
  'DatabaseBackupInfo',
  {
    database_id: databaseId(),
    database_name: databaseName(),
    backup_strategy: text({
      description: 'Backup method, as text for users.',
      examples: ['full backups and continuous log archive (pgBackRest)'],
    }),
    recovery_mode: text({
      description: '`point_in_time`: the database can be restored to any instant since the oldest backup.',
      examples: ['point_in_time'],
    }),
    retention_valid: bool({
      description:
        'Whether the newest backup was restored and checked; on a page server, whether it currently has the history.',
    }),
    status: text({ description: 'State of the backups in one word.', examples: ['ready'] }),
    ...ofStorage,
    newest_backup_at: Type.Optional(nullable(at('When the newest full backup ended; null if there is none.'))),
    backups: Type.Optional(int64({ description: 'Number of retained full backups.', examples: [7] })),
    size_bytes: Type.Optional(int64({ description: 'Total bytes of all backups.', examples: [734_003_200] })),
    checked_at: Type.Optional(nullable(at('When the newest restore drill ended; null if there was none.'))),
    target: Type.Optional(
      text({ description: 'Where backups go: `volume`, or `s3://bucket/prefix`.', examples: ['volume'] }),
    ),
    error: Type.Optional(
      nullable(
        text({
          description: 'Why the newest backup or restore drill failed; null if it did not fail.',
          examples: [null, 'The bucket does not exist.'],
        }),
      ),
    ),
  },
  { description: 'Backup configuration of a database and its state.' },
)
export type DatabaseBackupInfo = Static<typeof DatabaseBackupInfo>

export const DatabaseSnapshot = resource(
  'DatabaseSnapshot',
  {
    name: text({ description: 'Name of the snapshot; unique in its database.', examples: ['before-upgrade'] }),
    status: text({ description: '`creating`, `ready` or `failed`.', examples: ['ready'] }),
    size_bytes: int64({ description: 'Bytes that the snapshot takes; 0 until it is taken.', examples: [52_428_800] }),
    created_at: at('When the snapshot was requested.'),
    branch_name: Type.Optional(text({ description: 'The branch that the snapshot was taken of.', examples: ['main'] })),
    kind: Type.Optional(
      text({
        description: '`user`: taken on request; `restore`: the state before a restore, retained automatically.',
        examples: ['user'],
      }),
    ),
    error: Type.Optional(
      nullable(
        text({
          description: 'Why the snapshot failed; null if it did not fail.',
          examples: [null, 'The storage pool of the host is full.'],
        }),
      ),
    ),
  },
  { description: 'The data of a database at one point in time, under a name.' },
)
export type DatabaseSnapshot = Static<typeof DatabaseSnapshot>

export const DatabaseSnapshotAction = resource(
  'DatabaseSnapshotAction',
  {
    message: text({
      description: 'What happens now, as text for users.',
      examples: ['The database is being restored.'],
    }),
    success: bool({ description: 'Always true: a failed request answers with an error.' }),
  },
  { description: 'An operation on backups that was started.' },
)
export type DatabaseSnapshotAction = Static<typeof DatabaseSnapshotAction>

const tenantId = (options = {}) =>
  text({ description: 'Tenant, 32 hexadecimal digits.', examples: [tenantExample], ...options })
const generation = () => uint32({ description: 'Generation of the tenant.', examples: [1] })

export const TenantGeneration = resource(
  'TenantGeneration',
  { id: tenantId({ maxLength: 100 }), gen: generation() },
  { description: 'A tenant and its generation on a storage node.' },
)
export const ReAttachedTenant = resource(
  'ReAttachedTenant',
  {
    id: tenantId(),
    gen: generation(),
    mode: Type.Optional(text({ description: '`AttachedSingle`.', examples: ['AttachedSingle'] })),
    stripe_size: Type.Optional(uint32({ description: 'Pages per stripe, for tenants with shards.', examples: [2048] })),
  },
  { description: 'A tenant that is attached to a storage node.' },
)

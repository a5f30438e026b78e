/** Schemas of the request and response bodies of the database operations. */
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
    engine: text({ description: 'Database engine: `postgres`.', examples: ['postgres'] }),
    status: text({
      description:
        'Status of the current branch: `creating`, `running`, `suspended`, `restarting`, `restoring`, `unavailable`, `failed` or `deleting`.',
      examples: ['running'],
    }),
    vcpus: int64({ description: "Virtual CPUs of the database's VM.", examples: [1] }),
    memory_mib: int64({ description: "Memory of the database's VM in MiB.", examples: [1024] }),
    disk_mib: int64({ description: 'Size of the data disk in MiB.', examples: [10_240] }),
    postgres_version: uint16({ description: 'Major version of PostgreSQL.', examples: [17] }),
    storage_tenant_id: text({
      description: 'Tenant id of the database on the page server, 32 hexadecimal digits.',
      examples: [tenantExample],
    }),
    storage_timeline_id: text({
      description:
        'Timeline id of the current branch on the page server; empty if the database is not on a page server.',
      examples: [timelineExample],
    }),
    tenant_gen: uint32({
      description: 'Generation number of the tenant; it increases when another storage node attaches the tenant.',
      examples: [1],
    }),
    created_at: at('When the database was created.'),
    updated_at: at('When the database last changed.'),
    settings: Type.Optional(
      stringMap({
        description: 'PostgreSQL settings that differ from the defaults, by name.',
        examples: [{ work_mem: '8MB' }],
      }),
    ),
    message: Type.Optional(
      nullable(
        text({
          description: 'Why the database failed or does not accept connections; null if it accepts them.',
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
      description: 'User name for the SSH login.',
      examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
    }),
    password: text({
      description: 'One-time password. It is valid for one minute, for a single login and for this database only.',
      examples: ['m8Kq-2vTz-9xWc'],
    }),
    expires_at: at('When the password expires.'),
  },
  { description: 'A one-time password for the SSH bastion.' },
)

export const DatabaseConnection = resource(
  'DatabaseConnection',
  {
    database_id: databaseId(),
    database_name: text({
      description: 'Name of the database, also inside the PostgreSQL server.',
      examples: ['orders'],
    }),
    database_host: text({
      description: 'Host name of the PostgreSQL server inside the private network.',
      examples: ['orders.blue.internal'],
    }),
    database_port: uint16({ description: 'Port of the PostgreSQL server.', examples: [5432] }),
    database_user: text({ description: 'PostgreSQL role that owns the database.', examples: ['mote'] }),
    psql_command: text({
      description: 'Command that connects through the SSH tunnel. It contains the password.',
      examples: ["psql 'postgresql://mote:secret@127.0.0.1:54321/orders?sslmode=require'"],
    }),
    ssh_host: text({ description: 'Host name of the SSH bastion.', examples: ['bastion.mote.example'] }),
    ssh_port: uint16({ description: 'Port of the SSH bastion.', examples: [2222] }),
    ssh_user: text({
      description: 'User name for the SSH login.',
      examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
    }),
    ssh_tunnel_command: text({
      description: 'Command that opens the SSH tunnel.',
      examples: ['ssh -N -p 2222 -L 127.0.0.1:54321:orders.blue.internal:5432 0197e0f3@bastion.mote.example'],
    }),
    ssh_host_keys: list(text({ examples: [bastionKey] }), {
      description:
        'Host keys of the SSH bastions, in the format of known_hosts: `ssh-ed25519 AAAA...`. Clients must not accept any other key.',
    }),
  },
  { description: 'How to connect to a branch of a database.' },
)
export type DatabaseConnection = Static<typeof DatabaseConnection>

const ofStorage = {
  storage_tenant_id: nullable(
    text({
      description: 'Tenant id of the database on the page server; null if the database is not on a page server.',
      examples: [tenantExample],
    }),
  ),
  storage_timeline_id: nullable(
    text({
      description: 'Timeline id of the branch on the page server; null if the database is not on a page server.',
      examples: [timelineExample],
    }),
  ),
  tenant_gen: nullable(
    int64({
      description: 'Generation number of the tenant; null if the database is not on a page server.',
      examples: [1],
    }),
  ),
  created_at: at('When the database or branch was created.'),
  updated_at: at('When the database or branch last changed.'),
}

export const DatabaseBranch = resource(
  'DatabaseBranch',
  {
    database_id: databaseId(),
    database_name: databaseName(),
    branch_name: text({ description: 'Name of the branch; unique in the database.', examples: ['main'] }),
    is_current: bool({ description: 'Whether the host name of the database points to the branch.' }),
    status: text({
      description:
        'Status of the branch: `creating`, `ready` (accepts connections), `suspended`, `restarting`, `restoring`, `unavailable`, `failed` or `deleting`.',
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
      description: '`point_in_time`: the database can be restored to any point in time since the oldest backup.',
      examples: ['point_in_time'],
    }),
    retention_valid: bool({
      description:
        'Whether the newest backup was successfully restored in a restore drill; for a database on a page server, whether the page server currently has its history.',
    }),
    status: text({ description: 'State of the backups.', examples: ['ready'] }),
    ...ofStorage,
    newest_backup_at: Type.Optional(nullable(at('When the newest full backup was completed; null if there is none.'))),
    backups: Type.Optional(int64({ description: 'Number of retained full backups.', examples: [7] })),
    size_bytes: Type.Optional(int64({ description: 'Total size of all backups in bytes.', examples: [734_003_200] })),
    checked_at: Type.Optional(
      nullable(at('When the last restore drill (a test that restores a backup) ended; null if there was none.')),
    ),
    target: Type.Optional(
      text({ description: 'Where backups are stored: `volume`, or `s3://bucket/prefix`.', examples: ['volume'] }),
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
  { description: "Configuration and state of a database's backups." },
)
export type DatabaseBackupInfo = Static<typeof DatabaseBackupInfo>

export const DatabaseSnapshot = resource(
  'DatabaseSnapshot',
  {
    name: text({ description: 'Name of the snapshot; unique in the database.', examples: ['before-upgrade'] }),
    status: text({ description: 'Status of the snapshot: `creating`, `ready` or `failed`.', examples: ['ready'] }),
    size_bytes: int64({ description: 'Size of the snapshot in bytes; 0 until it is taken.', examples: [52_428_800] }),
    created_at: at('When the snapshot was requested.'),
    branch_name: Type.Optional(
      text({ description: 'Name of the branch that the snapshot was taken of.', examples: ['main'] }),
    ),
    kind: Type.Optional(
      text({
        description: '`user`: a user took the snapshot. `restore`: the snapshot retains the state before a restore.',
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
  { description: "A named copy of a database's data at one point in time." },
)
export type DatabaseSnapshot = Static<typeof DatabaseSnapshot>

export const DatabaseSnapshotAction = resource(
  'DatabaseSnapshotAction',
  {
    message: text({
      description: 'What happens now, as text for users.',
      examples: ['The database is being restored.'],
    }),
    success: bool({ description: 'Always true, because a failed request returns an error instead.' }),
  },
  { description: 'A started restore or change of the backup storage.' },
)
export type DatabaseSnapshotAction = Static<typeof DatabaseSnapshotAction>

const tenantId = (options = {}) =>
  text({ description: 'Tenant id, 32 hexadecimal digits.', examples: [tenantExample], ...options })
const generation = () => uint32({ description: 'Generation number of the tenant.', examples: [1] })

export const TenantGeneration = resource(
  'TenantGeneration',
  { id: tenantId({ maxLength: 100 }), gen: generation() },
  { description: 'A tenant and its generation number on a storage node.' },
)
export const ReAttachedTenant = resource(
  'ReAttachedTenant',
  {
    id: tenantId(),
    gen: generation(),
    mode: Type.Optional(
      text({ description: 'Mode of the attachment; always `AttachedSingle`.', examples: ['AttachedSingle'] }),
    ),
    stripe_size: Type.Optional(uint32({ description: 'Pages per stripe, for sharded tenants.', examples: [2048] })),
  },
  { description: 'A tenant that is attached to a storage node.' },
)

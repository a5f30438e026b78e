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

const at = (description: string) => dateTime({ description })
const databaseId = () => uuid({ description: 'The database.' })
const databaseName = () => text({ description: 'Name of the database.', examples: ['orders'] })
const tenantExample = '3f6d0c4f2a1097e08f003f6d0c4f2a10'
const timelineExample = '7c1a7d7e8f003f6d0c4f2a1097e0f3a1'
const bastionKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIL0yVbvlWAYkKYBwk2jmj7l5rSw0yVbvlWAYkKYBwk2j'

export const Database = resource(
  'Database',
  {
    id: uuid({ description: 'Id of the database, which paths name it by.' }),
    name: text({ description: 'Name of the database; unique in the project.', examples: ['orders'] }),
    engine: text({ description: 'What runs in its VM: `postgres`.', examples: ['postgres'] }),
    status: text({
      description:
        'Of the current branch: `creating`, `running`, `suspended`, `restarting`, `restoring`, `unavailable`, `failed` or `deleting`.',
      examples: ['running'],
    }),
    vcpus: int64({ description: 'Virtual CPUs of its VM.', examples: [1] }),
    memory_mib: int64({ description: 'Memory of its VM in MiB.', examples: [1024] }),
    disk_mib: int64({ description: 'Disk for its data in MiB.', examples: [10_240] }),
    postgres_version: uint16({ description: 'Major version of PostgreSQL.', examples: [17] }),
    storage_tenant_id: text({
      description: 'Its tenant at the page server, 32 hexadecimal digits.',
      examples: [tenantExample],
    }),
    storage_timeline_id: text({
      description: 'Timeline of its current branch at the page server; empty: none.',
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
          description: 'Why it has failed or does not answer; null: it works.',
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
      description: 'For one login within a minute, to this database alone.',
      examples: ['m8Kq-2vTz-9xWc'],
    }),
    expires_at: at('When it stops working.'),
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
      description: 'Connects through the tunnel; works as it is when pasted. It holds the password.',
      examples: ["psql 'postgresql://mote:secret@127.0.0.1:54321/orders?sslmode=require'"],
    }),
    ssh_host: text({ description: 'Host name of the SSH bastion.', examples: ['bastion.mote.example'] }),
    ssh_port: uint16({ description: 'Port of the SSH bastion.', examples: [2222] }),
    ssh_user: text({
      description: 'User name of the SSH login.',
      examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
    }),
    ssh_tunnel_command: text({
      description: 'Opens the tunnel; works as it is when pasted.',
      examples: ['ssh -N -p 2222 -L 127.0.0.1:54321:orders.blue.internal:5432 0197e0f3@bastion.mote.example'],
    }),
    ssh_host_keys: list(text({ examples: [bastionKey] }), {
      description: 'Keys of the SSH bastions, as in known_hosts: `ssh-ed25519 AAAA...`. Accept no other.',
    }),
  },
  { description: 'How to connect to a branch of a database.' },
)
export type DatabaseConnection = Static<typeof DatabaseConnection>

const ofStorage = {
  storage_tenant_id: nullable(
    text({ description: 'Tenant of the database at the page server; null: it has none.', examples: [tenantExample] }),
  ),
  storage_timeline_id: nullable(
    text({ description: 'Timeline of the branch at the page server; null: it has none.', examples: [timelineExample] }),
  ),
  tenant_gen: nullable(int64({ description: 'Generation of the tenant; null: there is no tenant.', examples: [1] })),
  created_at: at('When it was created.'),
  updated_at: at('When it last changed.'),
}

export const DatabaseBranch = resource(
  'DatabaseBranch',
  {
    database_id: databaseId(),
    database_name: databaseName(),
    branch_name: text({ description: 'Name of the branch; unique in its database.', examples: ['main'] }),
    is_current: bool({ description: 'Whether the host name of the database leads to it.' }),
    status: text({
      description:
        '`creating`, `ready` (a client that connects now is served), `suspended`, `restarting`, `restoring`, `unavailable`, `failed` or `deleting`.',
      examples: ['ready'],
    }),
    ...ofStorage,
  },
  { description: 'A line of history of a database, with a VM of its own.' },
)
export type DatabaseBranch = Static<typeof DatabaseBranch>

export const DatabaseBackupInfo = resource(
  'DatabaseBackupInfo',
  {
    database_id: databaseId(),
    database_name: databaseName(),
    backup_strategy: text({
      description: 'How it is backed up, for people.',
      examples: ['whole backups and continuous log archive (pgBackRest)'],
    }),
    recovery_mode: text({
      description: '`point_in_time`: it can go back to any instant since the oldest backup.',
      examples: ['point_in_time'],
    }),
    retention_valid: bool({
      description:
        'Whether the newest backup was restored and checked; on a page server, whether it has the history now.',
    }),
    status: text({ description: 'Whether backups work, in one word.', examples: ['ready'] }),
    ...ofStorage,
    newest_backup_at: Type.Optional(nullable(at('When the newest whole backup ended; null: there is none.'))),
    backups: Type.Optional(int64({ description: 'How many whole backups are kept.', examples: [7] })),
    size_bytes: Type.Optional(int64({ description: 'Bytes that all backups take together.', examples: [734_003_200] })),
    checked_at: Type.Optional(nullable(at('When the newest restore drill ended; null: there was none.'))),
    target: Type.Optional(
      text({ description: 'Where backups go: `volume`, or `s3://bucket/prefix`.', examples: ['volume'] }),
    ),
    error: Type.Optional(
      nullable(
        text({
          description: 'Why the newest backup or restore drill failed; null: it did not.',
          examples: [null, 'The bucket does not exist.'],
        }),
      ),
    ),
  },
  { description: 'How a database is backed up, and whether that works.' },
)
export type DatabaseBackupInfo = Static<typeof DatabaseBackupInfo>

export const DatabaseSnapshot = resource(
  'DatabaseSnapshot',
  {
    name: text({ description: 'Name of the snapshot; unique in its database.', examples: ['before-upgrade'] }),
    status: text({ description: '`creating`, `ready` or `failed`.', examples: ['ready'] }),
    size_bytes: int64({ description: 'Bytes that it takes; 0 until it is taken.', examples: [52_428_800] }),
    created_at: at('When it was asked for.'),
    branch_name: Type.Optional(text({ description: 'The branch that it was taken of.', examples: ['main'] })),
    kind: Type.Optional(
      text({
        description: '`user`: asked for; `restore`: the state before a restore, kept automatically.',
        examples: ['user'],
      }),
    ),
    error: Type.Optional(
      nullable(
        text({
          description: 'Why it failed; null: it did not.',
          examples: [null, 'The storage pool of the host is full.'],
        }),
      ),
    ),
  },
  { description: 'The data of a database at one moment, under a name.' },
)
export type DatabaseSnapshot = Static<typeof DatabaseSnapshot>

export const DatabaseSnapshotAction = resource(
  'DatabaseSnapshotAction',
  {
    message: text({ description: 'What happens now, for people.', examples: ['The database is being restored.'] }),
    success: bool({ description: 'Always true: a request that fails answers an error.' }),
  },
  { description: 'What a verb on a backup has begun.' },
)
export type DatabaseSnapshotAction = Static<typeof DatabaseSnapshotAction>

const tenantId = (options = {}) =>
  text({ description: 'Tenant, 32 hexadecimal digits.', examples: [tenantExample], ...options })
const generation = () => uint32({ description: 'Generation of the tenant.', examples: [1] })

export const TenantGeneration = resource(
  'TenantGeneration',
  { id: tenantId({ maxLength: 100 }), gen: generation() },
  { description: 'A tenant and the generation that a storage node has of it.' },
)
export const ReAttachedTenant = resource(
  'ReAttachedTenant',
  {
    id: tenantId(),
    gen: generation(),
    mode: Type.Optional(text({ description: '`AttachedSingle`.', examples: ['AttachedSingle'] })),
    stripe_size: Type.Optional(uint32({ description: 'Pages of a stripe; of tenants with shards.', examples: [2048] })),
  },
  { description: 'A tenant that a storage node is to have.' },
)

/** Request bodies of the database operations. */
import { Type } from 'typebox'
import {
  bool,
  fileName,
  int64,
  labelName,
  list,
  maybe,
  rawText,
  resource,
  stringMap,
  text,
  uint16,
  uint32,
} from '../http/types.ts'
import { TenantGeneration } from './resources.ts'

const vcpus = () => maybe(uint32({ description: 'Virtual CPUs of its VM.', examples: [1] }))
const memoryMib = () => maybe(uint32({ description: 'Memory of its VM in MiB.', examples: [1024] }))
const snapshotName = (description: string) =>
  text({ minLength: 1, maxLength: 100, description, examples: ['before-upgrade'] })
const instant = '2026-03-14T09:26:53.589Z'

export const CreateDatabaseRequest = resource('CreateDatabaseRequest', {
  name: labelName({ description: 'Name of the database; unique in the project.', examples: ['orders'] }),
  engine: text({
    minLength: 1,
    maxLength: 40,
    description: 'Engine of the database: `postgres`.',
    examples: ['postgres'],
  }),
  disk_mib: maybe(
    uint32({ description: 'Disk for the data in MiB; it can grow later. Default: 1024.', examples: [10_240] }),
  ),
  memory_mib: memoryMib(),
  postgres_version: maybe(
    uint16({
      description: 'Major version of PostgreSQL. Default: the one that the installation prefers.',
      examples: [17],
    }),
  ),
  settings: maybe(
    stringMap({ maxProperties: 100, description: 'Settings of the server by name.', examples: [{ work_mem: '8MB' }] }),
  ),
  vcpus: vcpus(),
})

export const UpdateDatabaseRequest = resource('UpdateDatabaseRequest', {
  vcpus: vcpus(),
  memory_mib: memoryMib(),
  disk_mib: maybe(
    uint32({
      description: 'Disk for the data in MiB, at least the current size. It grows while the database runs.',
      examples: [20_480],
    }),
  ),
  settings: maybe(
    stringMap({
      maxProperties: 100,
      description: 'All settings: settings that are left out are reset to their defaults.',
      examples: [{ work_mem: '8MB' }],
    }),
  ),
  suspended: maybe(
    bool({ description: 'True: the VMs stop and the disks stay; false: the VMs start again.', examples: [false] }),
  ),
})

export const TunnelPasswordRequest = resource('TunnelPasswordRequest', {
  branch: maybe(
    text({ maxLength: 40, description: 'The branch to connect to. Default: the current one.', examples: ['main'] }),
  ),
})

export const CreateDatabaseBranchRequest = resource('CreateDatabaseBranchRequest', {
  name: labelName({ description: 'Name of the branch; unique in its database.', examples: ['trial'] }),
  from_snapshot: maybe(snapshotName('Snapshot that the branch starts from. Not together with `at`.')),
  at: maybe(
    text({
      maxLength: 40,
      description:
        'Instant (RFC 3339) of the current branch that the new branch starts from, or `latest`; replayed from the backups.',
      examples: [null, instant],
    }),
  ),
})

export const CreateDatabaseSnapshotRequest = resource('CreateDatabaseSnapshotRequest', {
  name: fileName({ description: 'Name of the snapshot; unique in its database.' }),
})

export const RestoreDatabaseRequest = resource('RestoreDatabaseRequest', {
  snapshot_name: snapshotName('The snapshot to restore from.'),
})

export const RestoreDatabaseToRequest = resource('RestoreDatabaseToRequest', {
  at: text({
    minLength: 1,
    maxLength: 40,
    description: 'The instant (RFC 3339) to restore to, after the first full backup.',
    examples: [instant],
  }),
})

export const DatabaseBackupTarget = resource('DatabaseBackupTarget', {
  endpoint: text({
    maxLength: 300,
    description: '`https://host` or `https://host:port`; buckets are addressed by path.',
    examples: ['https://s3.example.com'],
  }),
  region: maybe(
    text({ maxLength: 60, description: 'Region of the bucket. Default: us-east-1.', examples: ['eu-central-1'] }),
  ),
  bucket: text({ maxLength: 63, description: 'The bucket; it must exist.', examples: ['backups'] }),
  prefix: maybe(text({ maxLength: 200, description: 'Prefix of all keys. Default: mote.', examples: ['mote'] })),
  access_key: text({ maxLength: 128, description: 'Access key of the storage.', examples: ['AKIAIOSFODNN7EXAMPLE'] }),
  secret_key: text({
    maxLength: 256,
    description: 'Secret key of the storage. It is stored encrypted and never shown.',
    examples: ['wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'],
  }),
  ca_certificate: maybe(
    rawText({
      maxLength: 20_000,
      description: 'Certificate of a private authority, as PEM; null for the public authorities.',
      examples: [null],
    }),
  ),
})

export const ReAttachRequest = resource('ReAttachRequest', {
  node_id: Type.Optional(int64({ description: 'Number of the storage node. Default: 1.', examples: [1] })),
})

export const ValidateRequest = resource('ValidateRequest', {
  tenants: list(TenantGeneration, { maxItems: 10_000, description: 'The tenants attached to the storage node.' }),
})

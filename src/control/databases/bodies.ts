/** The bodies of the operations of databases. */
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
    description: 'What runs in its VM: `postgres`.',
    examples: ['postgres'],
  }),
  disk_mib: maybe(
    uint32({ description: 'Disk for its data in MiB; it can grow later. Default: 1024.', examples: [10_240] }),
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
      description: 'Disk for its data in MiB, at least what it has. It grows while it runs.',
      examples: [20_480],
    }),
  ),
  settings: maybe(
    stringMap({
      maxProperties: 100,
      description: 'All settings: those that are left out get their defaults again.',
      examples: [{ work_mem: '8MB' }],
    }),
  ),
  suspended: maybe(
    bool({ description: 'True: its VMs stop and its disks stay; false: they start again.', examples: [false] }),
  ),
})

export const TunnelPasswordRequest = resource('TunnelPasswordRequest', {
  branch: maybe(
    text({ maxLength: 40, description: 'The branch to connect to. Default: the current one.', examples: ['main'] }),
  ),
})

export const CreateDatabaseBranchRequest = resource('CreateDatabaseBranchRequest', {
  name: labelName({ description: 'Name of the branch; unique in its database.', examples: ['trial'] }),
  from_snapshot: maybe(snapshotName('Begins with this snapshot. Not together with `at`.')),
  at: maybe(
    text({
      maxLength: 40,
      description: 'Begins as the current branch was at this instant (RFC 3339), or `latest`; played from the backups.',
      examples: [null, instant],
    }),
  ),
})

export const CreateDatabaseSnapshotRequest = resource('CreateDatabaseSnapshotRequest', {
  name: fileName({ description: 'Name of the snapshot; unique in its database.' }),
})

export const RestoreDatabaseRequest = resource('RestoreDatabaseRequest', {
  snapshot_name: snapshotName('The snapshot to go back to.'),
})

export const RestoreDatabaseToRequest = resource('RestoreDatabaseToRequest', {
  at: text({
    minLength: 1,
    maxLength: 40,
    description: 'The instant (RFC 3339) to go back to, after the first whole backup.',
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
  prefix: maybe(text({ maxLength: 200, description: 'What keys begin with. Default: mote.', examples: ['mote'] })),
  access_key: text({ maxLength: 128, description: 'Access key of the storage.', examples: ['AKIAIOSFODNN7EXAMPLE'] }),
  secret_key: text({
    maxLength: 256,
    description: 'Its secret. It is stored encrypted, and never shown.',
    examples: ['wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'],
  }),
  ca_certificate: maybe(
    rawText({
      maxLength: 20_000,
      description: 'Certificate of a private authority, as PEM; null: the authorities that everybody trusts.',
      examples: [null],
    }),
  ),
})

export const ReAttachRequest = resource('ReAttachRequest', {
  node_id: Type.Optional(int64({ description: 'Number of the storage node. Default: 1.', examples: [1] })),
})

export const ValidateRequest = resource('ValidateRequest', {
  tenants: list(TenantGeneration, { maxItems: 10_000, description: 'The tenants that the storage node has.' }),
})

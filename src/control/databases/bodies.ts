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

const vcpus = () => maybe(uint32({ description: "Virtual CPUs of the database's VM.", examples: [1] }))
const memoryMib = () => maybe(uint32({ description: "Memory of the database's VM in MiB.", examples: [1024] }))
const snapshotName = (description: string) =>
  text({ minLength: 1, maxLength: 100, description, examples: ['before-upgrade'] })
const instant = '2026-03-14T09:26:53.589Z'

export const CreateDatabaseRequest = resource('CreateDatabaseRequest', {
  name: labelName({ description: 'Name of the database; unique in the project.', examples: ['orders'] }),
  engine: text({
    minLength: 1,
    maxLength: 40,
    description: 'Database engine: `postgres`.',
    examples: ['postgres'],
  }),
  disk_mib: maybe(
    uint32({ description: 'Size of the data disk in MiB; it can grow later. Default: 1024.', examples: [10_240] }),
  ),
  memory_mib: memoryMib(),
  postgres_version: maybe(
    uint16({
      description: 'Major version of PostgreSQL. Default: set by the operator.',
      examples: [17],
    }),
  ),
  settings: maybe(
    stringMap({ maxProperties: 100, description: 'PostgreSQL settings by name.', examples: [{ work_mem: '8MB' }] }),
  ),
  vcpus: vcpus(),
})

export const UpdateDatabaseRequest = resource('UpdateDatabaseRequest', {
  vcpus: vcpus(),
  memory_mib: memoryMib(),
  disk_mib: maybe(
    uint32({
      description: 'Size of the data disk in MiB, at least the current size. The disk grows while the database runs.',
      examples: [20_480],
    }),
  ),
  settings: maybe(
    stringMap({
      maxProperties: 100,
      description: 'All PostgreSQL settings by name. Settings that are left out are reset to their defaults.',
      examples: [{ work_mem: '8MB' }],
    }),
  ),
  suspended: maybe(
    bool({
      description:
        'Whether the database is suspended. True stops its VMs and keeps their disks; false starts the VMs again.',
      examples: [false],
    }),
  ),
})

export const TunnelPasswordRequest = resource('TunnelPasswordRequest', {
  branch: maybe(
    text({
      maxLength: 40,
      description: 'Name of the branch to connect to. Default: the current branch.',
      examples: ['main'],
    }),
  ),
})

export const CreateDatabaseBranchRequest = resource('CreateDatabaseBranchRequest', {
  name: labelName({ description: 'Name of the branch; unique in the database.', examples: ['trial'] }),
  from_snapshot: maybe(
    snapshotName('Name of the snapshot that the branch starts from. Not allowed together with `at`.'),
  ),
  at: maybe(
    text({
      maxLength: 40,
      description:
        'Point in time (RFC 3339) in the history of the current branch at which the new branch starts, or `latest`. The state is restored from the backups.',
      examples: [null, instant],
    }),
  ),
})

export const CreateDatabaseSnapshotRequest = resource('CreateDatabaseSnapshotRequest', {
  name: fileName({ description: 'Name of the snapshot; unique in the database.' }),
})

export const RestoreDatabaseRequest = resource('RestoreDatabaseRequest', {
  snapshot_name: snapshotName('Name of the snapshot to restore from.'),
})

export const RestoreDatabaseToRequest = resource('RestoreDatabaseToRequest', {
  at: text({
    minLength: 1,
    maxLength: 40,
    description: 'Point in time (RFC 3339) to restore to. It must be after the first full backup.',
    examples: [instant],
  }),
})

export const DatabaseBackupTarget = resource('DatabaseBackupTarget', {
  endpoint: text({
    maxLength: 300,
    description: 'URL of the object storage: `https://host` or `https://host:port`. Buckets are addressed by path.',
    examples: ['https://s3.example.com'],
  }),
  region: maybe(
    text({ maxLength: 60, description: 'Region of the bucket. Default: us-east-1.', examples: ['eu-central-1'] }),
  ),
  bucket: text({ maxLength: 63, description: 'Name of the bucket, which must exist.', examples: ['backups'] }),
  prefix: maybe(text({ maxLength: 200, description: 'Prefix of all object keys. Default: mote.', examples: ['mote'] })),
  access_key: text({
    maxLength: 128,
    description: 'Access key of the object storage.',
    examples: ['AKIAIOSFODNN7EXAMPLE'],
  }),
  secret_key: text({
    maxLength: 256,
    description: 'Secret key of the object storage. It is stored encrypted and never shown.',
    examples: ['wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'],
  }),
  ca_certificate: maybe(
    rawText({
      maxLength: 20_000,
      description: 'PEM certificate of a private certificate authority; null for public certificate authorities.',
      examples: [null],
    }),
  ),
})

export const ReAttachRequest = resource('ReAttachRequest', {
  node_id: Type.Optional(int64({ description: 'Number of the storage node. Default: 1.', examples: [1] })),
})

export const ValidateRequest = resource('ValidateRequest', {
  tenants: list(TenantGeneration, { maxItems: 10_000, description: 'Tenants that are attached to the storage node.' }),
})

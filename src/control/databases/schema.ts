import { Type } from 'typebox'
import { logEvents, metricsEvents } from '../deployments/schema.ts'
import { bytesPerRequest } from '../http/body-limit.ts'
import { operations } from '../http/operation.ts'
import { int64, list, text, uuid } from '../http/types.ts'
import { backupOperations } from './backup-schema.ts'
import {
  CreateDatabaseBranchRequest,
  CreateDatabaseRequest,
  TunnelPasswordRequest,
  UpdateDatabaseRequest,
} from './bodies.ts'
import { Database, DatabaseBranch, DatabaseConnection, TunnelPassword } from './resources.ts'

export { upcallOperations } from './upcall-schema.ts'

const shared = { tag: 'Databases', auth: 'bearer', project: 'selected' } as const
const id = () => uuid({ description: 'Id of the database.' })
const params = Type.Object({ id: id() })
const ofBranch = Type.Object({
  id: id(),
  branch_name: text({ description: 'Name of the branch.', examples: ['trial'] }),
})

/**
 * Maximum size of a request, needed because the schema does not limit the number of settings. All settings that
 * rules.ts allows have about 10 KiB together.
 */
const maxRequestBytes = bytesPerRequest

const ownOperations = operations({
  listDatabases: {
    method: 'GET',
    path: '/v1/databases',
    summary: 'List the databases of a project',
    description: 'Returns the databases of the project, newest first.',
    ...shared,
    scope: 'read',
    list: { order: ['-id'], filters: ['name', 'status'] },
    answer: list(Database),
  },
  createDatabase: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/databases',
    summary: 'Create a database',
    description:
      'Creates a managed database in its own VM. The response is sent before the database is ready: wait for `running` with `GET /v1/databases/{id}`.',
    ...shared,
    scope: 'write',
    body: CreateDatabaseRequest,
    maxBytes: maxRequestBytes,
    answer: Database,
  },
  deleteDatabase: {
    method: 'DELETE',
    path: '/v1/databases/{id}',
    summary: 'Delete a database',
    description:
      'Deletes the database with its branches, its snapshots and its backups on volumes. This cannot be undone. Backups in object storage are not deleted.',
    ...shared,
    scope: 'write',
    params,
    answer: Type.Null({ description: 'Always null.', examples: [null] }),
  },
  getDatabase: {
    addition: true,
    method: 'GET',
    path: '/v1/databases/{id}',
    summary: 'Get a database',
    description:
      'Returns one database. With `wait=running,failed` the response is delayed until the database is created.',
    ...shared,
    scope: 'read',
    params,
    answer: Database,
    waits: 'status',
  },
  updateDatabase: {
    addition: true,
    method: 'PATCH',
    path: '/v1/databases/{id}',
    summary: 'Change a database',
    description:
      'Changes a database. New sizes of the VM and new settings restart the PostgreSQL server; the disk grows while the server runs. The request can also suspend or resume the database.',
    ...shared,
    scope: 'write',
    params,
    body: UpdateDatabaseRequest,
    maxBytes: maxRequestBytes,
    fails: [409],
    answer: Database,
  },
  rotateDatabasePassword: {
    addition: true,
    method: 'POST',
    path: '/v1/databases/{id}/rotate-password',
    summary: 'Rotate the password of a database',
    description:
      'Sets a new password for the database owner. Clients that connected with the old password are disconnected.',
    ...shared,
    scope: 'write',
    params,
    answer: Database,
  },
  streamDatabaseLogs: {
    addition: true,
    method: 'GET',
    path: '/v1/databases/{id}/logs/stream',
    summary: 'Follow the log of a database',
    description:
      'Sends stored log lines, then each new line that the PostgreSQL server of the current branch writes. Resume with `Last-Event-ID`.',
    ...shared,
    scope: 'read',
    params,
    query: Type.Object({
      tail: Type.Optional(
        int64({
          minimum: 0,
          maximum: 10_000,
          description: 'Number of stored log lines to send first. Default: 100.',
          examples: [100],
        }),
      ),
    }),
    answer: 'stream',
    events: logEvents,
  },
  streamDatabaseMetrics: {
    addition: true,
    method: 'GET',
    path: '/v1/databases/{id}/metrics/stream',
    summary: 'Follow the metrics of a database',
    description: "Sends the metrics of the current branch's VM, first as `snapshot`, then once a second as `metrics`.",
    ...shared,
    scope: 'read',
    params,
    answer: 'stream',
    events: metricsEvents,
  },
  getDatabaseConnection: {
    secretAnswer: true,
    method: 'GET',
    path: '/v1/databases/{id}/connection',
    summary: 'Get the connection of a database',
    description:
      'Returns addresses, the owner role and its password, and commands that connect. Connections from outside go through an SSH tunnel over the bastion.',
    ...shared,
    scope: 'write',
    params,
    query: Type.Object({
      branch: Type.Optional(
        text({
          maxLength: 40,
          description: 'Name of the branch to connect to. Default: the current branch.',
          examples: ['main'],
        }),
      ),
    }),
    answer: DatabaseConnection,
    fails: [409],
  },
  createTunnelPassword: {
    secretAnswer: true,
    throttle: 'create',
    method: 'POST',
    path: '/v1/databases/{id}/tunnel-password',
    summary: 'Create a tunnel password',
    description:
      'Creates a password for a single SSH login to this database, valid for one minute. It is shown only once.',
    ...shared,
    scope: 'write',
    params,
    body: TunnelPasswordRequest,
    answer: TunnelPassword,
    addition: true,
  },
  listDatabaseBranches: {
    method: 'GET',
    path: '/v1/databases/{id}/branches',
    summary: 'List the branches of a database',
    description: 'Returns the branches of the database, newest first.',
    ...shared,
    scope: 'read',
    params,
    list: { order: ['-created_at', 'branch_name'], filters: ['status'] },
    answer: list(DatabaseBranch),
    items: [
      {
        id: 'getDatabaseBranch',
        path: '/v1/databases/{id}/branches/{branch_name}',
        by: 'branch_name',
        summary: 'Get a branch of a database',
        description:
          'Returns one branch. With `wait=ready,failed` the response is delayed until the branch accepts connections.',
        waits: 'status',
      },
    ],
  },
  createDatabaseBranch: {
    addition: true,
    throttle: 'create',
    method: 'POST',
    path: '/v1/databases/{id}/branches',
    summary: 'Create a branch of a database',
    description:
      'Creates a branch with its own VM, from a snapshot (`from_snapshot`) or from the current branch at a point in time (`at`). Exactly one of them is required.',
    ...shared,
    scope: 'write',
    params,
    body: CreateDatabaseBranchRequest,
    answer: DatabaseBranch,
  },
  deleteDatabaseBranch: {
    addition: true,
    method: 'DELETE',
    path: '/v1/databases/{id}/branches/{branch_name}',
    summary: 'Delete a branch of a database',
    description:
      'Deletes a branch with its snapshots and backups. The current branch cannot be deleted: promote another one first.',
    ...shared,
    scope: 'write',
    params: ofBranch,
    fails: [409],
    answer: DatabaseBranch,
  },
  promoteDatabaseBranch: {
    addition: true,
    method: 'POST',
    path: '/v1/databases/{id}/branches/{branch_name}/promote',
    summary: 'Promote a branch of a database',
    description: 'Makes the branch the current one: from then on, the host name of the database points to it.',
    ...shared,
    scope: 'write',
    params: ofBranch,
    answer: DatabaseBranch,
  },
})

export const databaseOperations = { ...ownOperations, ...backupOperations }

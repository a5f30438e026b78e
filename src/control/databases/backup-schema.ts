import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { list, text, uuid } from '../http/types.ts'
import {
  CreateDatabaseSnapshotRequest,
  DatabaseBackupTarget,
  RestoreDatabaseRequest,
  RestoreDatabaseToRequest,
} from './bodies.ts'
import { DatabaseBackupInfo, DatabaseSnapshot, DatabaseSnapshotAction } from './resources.ts'

const shared = { tag: 'Databases', auth: 'bearer', project: 'selected' } as const
const id = () => uuid({ description: 'Id of the database.' })
const params = Type.Object({ id: id() })
const ofSnapshot = Type.Object({
  id: id(),
  snapshot_name: text({ description: 'Name of the snapshot.', examples: ['before-upgrade'] }),
})

export const backupOperations = operations({
  getDatabaseBackups: {
    method: 'GET',
    path: '/v1/databases/{id}/backups',
    summary: 'Get the state of the backups of a database',
    description:
      'Returns how the database is backed up, where the backups are stored, and whether the newest one could be restored.',
    ...shared,
    scope: 'read',
    params,
    asksOthers: true,
    answer: DatabaseBackupInfo,
  },
  listDatabaseSnapshots: {
    method: 'GET',
    path: '/v1/databases/{id}/backups/snapshots',
    summary: 'List the snapshots of a database',
    description: 'Returns the snapshots of all branches of the database, newest first.',
    ...shared,
    scope: 'read',
    params,
    list: { order: ['-created_at', 'name'], filters: ['status'] },
    answer: list(DatabaseSnapshot),
    items: [
      {
        id: 'getDatabaseSnapshot',
        path: '/v1/databases/{id}/backups/snapshots/{snapshot_name}',
        by: 'name',
        summary: 'Get a snapshot of a database',
        description:
          'Returns one snapshot. With `wait=ready,failed` the response is delayed until the snapshot is taken.',
        waits: 'status',
      },
    ],
  },
  createDatabaseSnapshot: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/databases/{id}/backups/snapshots',
    summary: 'Take a snapshot of a database',
    description:
      'Takes a snapshot of the current branch. The response is sent before the snapshot is taken: wait for `ready`.',
    ...shared,
    scope: 'write',
    params,
    body: CreateDatabaseSnapshotRequest,
    answer: DatabaseSnapshot,
  },
  restoreDatabase: {
    method: 'POST',
    path: '/v1/databases/{id}/backups/restore',
    summary: 'Restore a database from a snapshot',
    description:
      'Restores the database from the snapshot. The current state is retained as another snapshot. Clients are disconnected during the restore.',
    ...shared,
    scope: 'write',
    params,
    body: RestoreDatabaseRequest,
    answer: DatabaseSnapshotAction,
  },
  restoreDatabaseTo: {
    addition: true,
    method: 'POST',
    path: '/v1/databases/{id}/backups/restore-to',
    summary: 'Restore a database to a point in time',
    description:
      'Restores the database to a point in time, from its backups. The current state is retained as a snapshot. Clients are disconnected during the restore.',
    ...shared,
    scope: 'write',
    params,
    body: RestoreDatabaseToRequest,
    answer: DatabaseSnapshotAction,
  },
  setDatabaseBackupTarget: {
    addition: true,
    method: 'PUT',
    path: '/v1/databases/{id}/backups/target',
    summary: 'Send the backups of a database to object storage',
    description:
      'From now on, stores backups and the write-ahead log in object storage with the S3 API. The database restarts.',
    ...shared,
    scope: 'write',
    params,
    body: DatabaseBackupTarget,
    fails: [409],
    answer: DatabaseBackupInfo,
  },
  deleteDatabaseBackupTarget: {
    addition: true,
    method: 'DELETE',
    path: '/v1/databases/{id}/backups/target',
    summary: 'Send the backups of a database to volumes',
    description: 'Stores backups and the write-ahead log on volumes again. Backups in object storage are not deleted.',
    ...shared,
    scope: 'write',
    params,
    fails: [409],
    answer: DatabaseBackupInfo,
  },
  deleteDatabaseSnapshot: {
    method: 'DELETE',
    path: '/v1/databases/{id}/backups/snapshots/{snapshot_name}',
    summary: 'Delete a snapshot of a database',
    description: 'Deletes the snapshot and frees its space. Branches that were created from it are not affected.',
    ...shared,
    scope: 'write',
    params: ofSnapshot,
    fails: [409],
    answer: DatabaseSnapshotAction,
  },
})

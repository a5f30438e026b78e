import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import type { Deps } from '../base/deps.ts'
import { ApiError, invalidField, invalidState, notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import * as backups from './backup-store.ts'
import { sealTarget, targetName, targetOf } from './backup-target.ts'
import { keptPrefix } from './restoring.ts'
import { historyOf } from './history.ts'
import { momentOf, statusOf } from './rules.ts'
import type { databaseOperations } from './schema.ts'
import { takeSnapshot } from './snapshot-workflow.ts'
import * as snapshots from './snapshot-store.ts'
import * as restores from './restore-store.ts'
import * as store from './store.ts'
import * as targets from './target-store.ts'
import { backupView, snapshotView } from './view.ts'

type BackupOperations = Pick<
  typeof databaseOperations,
  | 'getDatabaseBackups'
  | 'listDatabaseSnapshots'
  | 'createDatabaseSnapshot'
  | 'restoreDatabase'
  | 'restoreDatabaseTo'
  | 'setDatabaseBackupTarget'
  | 'deleteDatabaseBackupTarget'
  | 'deleteDatabaseSnapshot'
>

const mostSnapshots = 100

export const backupHandlers = (deps: Deps): Handlers<BackupOperations> => ({
  getDatabaseBackups: {
    read: async ({ project, params, signal }) => {
      const database = await store.inProject(deps.db, project.id, params.id)
      const current = database && (await store.current(deps.db, [database.id])).get(database.id)
      if (!current) throw notFound()
      const history = await historyOf(deps, current, deps.clock.now(), signal)
      return backupView(current, await backups.ofBranch(deps.db, current.id), deps.vault, history)
    },
  },

  listDatabaseSnapshots: {
    read: async ({ project, params }) => {
      const database = await store.inProject(deps.db, project.id, params.id)
      if (!database) throw notFound()
      const names = new Map((await store.branches(deps.db, database.id)).map(({ id, name }) => [id, name]))
      return (await snapshots.list(deps.db, database.id)).map(one => snapshotView(one, names.get(one.branchId) ?? ''))
    },
  },

  createDatabaseSnapshot: {
    write: async call => async tx => {
      const { name } = call.body
      if (name.startsWith(keptPrefix))
        throw invalidField('name', `names that begin with ${keptPrefix} are reserved for restores`)
      const database = await store.lock(tx, call.project.id, call.params.id)
      const current = database && (await store.current(tx, [database.id])).get(database.id)
      if (!database || !current) throw notFound()
      if (current.readyAt === null) throw invalidState('The database is still being created and has no data yet.')
      if ((await snapshots.list(tx, database.id)).length >= mostSnapshots)
        throw invalidState(`A database has at most ${mostSnapshots} snapshots. Delete one first.`)
      const made = await takeSnapshot(tx, current, { name, kind: 'user' })
      call.audit({
        action: 'database.snapshot',
        resourceType: 'database',
        resourceId: database.id,
        details: { name: database.name, snapshot: name },
      })
      return snapshotView(made, current.name)
    },
  },

  restoreDatabase: {
    write: async call => async tx => {
      const name = call.body.snapshot_name
      const database = await store.lock(tx, call.project.id, call.params.id)
      const current = database && (await store.current(tx, [database.id])).get(database.id)
      if (!database || !current) throw notFound()
      const snapshot = await snapshots.lock(tx, database.id, name)
      if (!snapshot) throw notFound()
      if (snapshot.state !== 'ready') throw invalidState(`Snapshot ${name} is ${snapshot.state}.`)
      if (snapshot.branchId !== current.id)
        throw invalidState('This snapshot belongs to another branch. Create a branch from it and promote that instead.')
      if (!(await restores.startRestore(tx, current.id, { snapshotId: snapshot.id })))
        throw new ApiError('operation_in_progress', `The database is ${statusOf(current)}. Wait until that is done.`)
      await poke(tx, 'database', current.id)
      call.audit({
        action: 'database.restore',
        resourceType: 'database',
        resourceId: database.id,
        details: { name: database.name, snapshot: name },
      })
      return { message: `Restoring from ${name}. The previous state is retained as a snapshot.`, success: true }
    },
  },

  restoreDatabaseTo: {
    write: async call => {
      const moment = momentOf(call.body.at, deps.clock.now())
      return async tx => {
        const database = await store.lock(tx, call.project.id, call.params.id)
        const current = database && (await store.current(tx, [database.id])).get(database.id)
        if (!database || !current) throw notFound()
        if (database.backend === 'neon')
          throw invalidState(
            'Databases on a page server are restored to an instant by branching: POST .../branches {name, at}.',
          )
        if (((await backups.ofBranch(tx, current.id))?.newestAt ?? null) === null)
          throw invalidState('There is no full backup to restore from yet. See GET .../backups.')
        if (!(await restores.startRestore(tx, current.id, { moment })))
          throw new ApiError('operation_in_progress', `The database is ${statusOf(current)}. Wait until that is done.`)
        await poke(tx, 'database', current.id)
        call.audit({
          action: 'database.restore',
          resourceType: 'database',
          resourceId: database.id,
          details: { name: database.name, at: call.body.at },
        })
        return { message: `Restoring to ${moment}. The previous state is retained as a snapshot.`, success: true }
      }
    },
  },

  setDatabaseBackupTarget: {
    write: async call => {
      const target = targetOf(call.body)
      return async tx => {
        const { database, view } = await changeTarget(deps, tx, call, sealTarget(deps.vault, target))
        call.audit({
          action: 'database.backup_target',
          resourceType: 'database',
          resourceId: database.id,
          details: { name: database.name, target: targetName(target), endpoint: call.body.endpoint },
        })
        return view
      }
    },
  },

  deleteDatabaseBackupTarget: {
    write: async call => async tx => {
      const { database, view } = await changeTarget(deps, tx, call, null)
      call.audit({
        action: 'database.backup_target',
        resourceType: 'database',
        resourceId: database.id,
        details: { name: database.name, target: 'volume' },
      })
      return view
    },
  },

  deleteDatabaseSnapshot: {
    write: async call => async tx => {
      const name = call.params.snapshot_name
      const database = await store.lock(tx, call.project.id, call.params.id)
      const snapshot = database && (await snapshots.lock(tx, database.id, name))
      if (!database || !snapshot) throw notFound()
      if ((await snapshots.restoresFrom(tx, snapshot.id)) > 0)
        throw new ApiError(
          'operation_in_progress',
          `The database is being restored from ${name}. Wait until that is done.`,
        )
      await snapshots.markForDeletion(tx, snapshot.id)
      await poke(tx, 'database-snapshot', snapshot.id)
      call.audit({
        action: 'database.snapshot_delete',
        resourceType: 'database',
        resourceId: database.id,
        details: { name: database.name, snapshot: name },
      })
      return { message: `Snapshot ${name} is being deleted.`, success: true }
    },
  },
})

interface DatabaseCall {
  readonly project: { readonly id: string }
  readonly params: { readonly id: string }
}

async function changeTarget(deps: Deps, tx: Tx, { project, params }: DatabaseCall, sealed: Buffer | null) {
  const database = await store.lock(tx, project.id, params.id)
  if (!database) throw notFound()
  if (database.backend === 'neon') throw invalidState('Databases on a page server keep their history there.')
  await targets.changeTarget(tx, database.id, sealed)
  for (const id of await store.branchIdsOf(tx, database.id)) await poke(tx, 'database', id)
  const current = (await store.current(tx, [database.id])).get(database.id)
  if (!current) throw notFound()
  return { database, view: backupView(current, await backups.ofBranch(tx, current.id), deps.vault) }
}

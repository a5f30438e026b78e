import type { Deps } from '../base/deps.ts'
import { poke } from '../../engine/runner.ts'
import { ApiError, invalidField, invalidState, notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { keptPrefix } from './restoring.ts'
import type { databaseOperations } from './schema.ts'
import { takeSnapshot } from './snapshot-workflow.ts'
import * as snapshots from './snapshot-store.ts'
import * as store from './store.ts'
import { snapshotView } from './view.ts'

type SnapshotHandlers = Pick<
  Handlers<typeof databaseOperations>,
  'listDatabaseSnapshots' | 'createDatabaseSnapshot' | 'deleteDatabaseSnapshot'
>

const mostSnapshots = 100

export const snapshotHandlers = (deps: Deps): SnapshotHandlers => ({
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
        throw invalidState(`A database can have at most ${mostSnapshots} snapshots. Delete one first.`)
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

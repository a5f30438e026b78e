import type { Deps } from '../base/deps.ts'
import { poke } from '../../engine/runner.ts'
import { ApiError, invalidState, notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import * as backups from './backup-store.ts'
import * as restores from './restore-store.ts'
import { momentOf, statusOf } from './rules.ts'
import type { databaseOperations } from './schema.ts'
import * as snapshots from './snapshot-store.ts'
import * as store from './store.ts'

type RestoreHandlers = Pick<Handlers<typeof databaseOperations>, 'restoreDatabase' | 'restoreDatabaseTo'>

export const restoreHandlers = (deps: Deps): RestoreHandlers => ({
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
})

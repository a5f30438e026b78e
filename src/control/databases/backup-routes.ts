import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import type { Deps } from '../base/deps.ts'
import { invalidState, notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import * as backups from './backup-store.ts'
import { sealTarget, targetName, targetOf } from './backup-target.ts'
import { historyOf } from './history.ts'
import type { databaseOperations } from './schema.ts'
import * as store from './store.ts'
import * as targets from './target-store.ts'
import { backupView } from './view.ts'

type BackupOperations = Pick<
  typeof databaseOperations,
  'getDatabaseBackups' | 'setDatabaseBackupTarget' | 'deleteDatabaseBackupTarget'
>

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

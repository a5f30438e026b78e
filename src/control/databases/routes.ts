import type { Deps } from '../base/deps.ts'
import type { LiveStats } from '../hosts/index.ts'
import { notFound } from '../http/errors.ts'
import { type Handlers, feature } from '../http/operation.ts'
import { backupHandlers } from './backup-routes.ts'
import { branchHandlers } from './branch-routes.ts'
import { changeDatabase } from './change.ts'
import { connectionHandlers } from './connection-routes.ts'
import { createDatabase, startDeletingDatabase } from './create.ts'
import { offeredVersions } from './offer.ts'
import { found, viewOf } from './read.ts'
import { restoreHandlers } from './restore-routes.ts'
import { checkSettings, shapeOf } from './rules.ts'
import { databaseOperations } from './schema.ts'
import { snapshotHandlers } from './snapshot-routes.ts'
import * as store from './store.ts'
import { databaseView } from './view.ts'

export const databaseFeature = (deps: Deps & { readonly live: LiveStats }) =>
  feature(databaseOperations, {
    ...databaseHandlers(deps),
    ...connectionHandlers(deps),
    ...branchHandlers(deps),
    ...backupHandlers(deps),
    ...snapshotHandlers(deps),
    ...restoreHandlers(deps),
  })

const databaseHandlers = (
  deps: Deps,
): Handlers<
  Pick<
    typeof databaseOperations,
    'listDatabases' | 'getDatabase' | 'createDatabase' | 'updateDatabase' | 'deleteDatabase'
  >
> => ({
  listDatabases: {
    read: async ({ project }) => {
      const databases = await store.list(deps.db, project.id)
      const current = await store.current(
        deps.db,
        databases.map(({ id }) => id),
      )
      return databases.map(one => databaseView(one, current.get(one.id)))
    },
  },

  getDatabase: {
    read: async ({ project, params }) => {
      const database = await store.inProject(deps.db, project.id, params.id)
      if (!database) throw notFound()
      return viewOf(deps.db, database)
    },
  },

  createDatabase: {
    write: async call => {
      const { body, project } = call
      const { name } = body
      const { versions, backend } = deps.config.databases
      // Databases on page servers run the operator's own image, which hosts do not report, so all configured versions
      // are offered.
      const offered = backend === 'neon' ? versions : await offeredVersions(deps.db, 'postgres', versions)
      const shape = shapeOf(body, offered)
      return async tx => {
        const id = await createDatabase(deps, tx, { ...shape, projectId: project.id, name })
        const { engine, version, vcpus, memoryMib, diskMib } = shape
        call.audit({
          action: 'database.create',
          resourceType: 'database',
          resourceId: id,
          details: { name, engine, version, vcpus, memory_mib: memoryMib, disk_mib: diskMib },
        })
        return viewOf(tx, await found(tx, project.id, id))
      }
    },
  },

  updateDatabase: {
    write: async call => {
      const { body, project, params } = call
      const settings = body.settings == null ? undefined : checkSettings(body.settings)
      return async tx => {
        const now = await store.lock(tx, project.id, params.id)
        if (!now) throw notFound()
        const { sizes, want } = await changeDatabase(tx, now, body, settings)
        call.audit({
          action: 'database.update',
          resourceType: 'database',
          resourceId: now.id,
          details: {
            name: now.name,
            vcpus: sizes.vcpus,
            memory_mib: sizes.memoryMib,
            disk_mib: sizes.diskMib,
            settings: settings ?? null,
            want,
          },
        })
        return viewOf(tx, await found(tx, project.id, now.id))
      }
    },
  },

  deleteDatabase: {
    write: async call => async tx => {
      const database = await store.lock(tx, call.project.id, call.params.id)
      if (!database) throw notFound()
      await startDeletingDatabase(tx, database.id)
      call.audit({
        action: 'database.delete',
        resourceType: 'database',
        resourceId: database.id,
        details: { name: database.name },
      })
      return null
    },
  },
})

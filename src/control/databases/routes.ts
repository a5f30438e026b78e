import { poke } from '../../engine/runner.ts'
import type { Tx } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { assertSizesFit, streamLogs, streamMetrics } from '../deployments/index.ts'
import type { LiveStats } from '../hosts/index.ts'
import { invalidField, invalidState, notFound } from '../http/errors.ts'
import { type Handlers, feature } from '../http/operation.ts'
import { backupHandlers } from './backup-routes.ts'
import { bastionKeys } from './bastion-keys.ts'
import { branchHandlers } from './branch-routes.ts'
import { createDatabase, startDeletingDatabase } from './create.ts'
import { offeredVersions } from './offer.ts'
import { rotatePassword } from './password.ts'
import { checkSettings, knowsPassword, shapeOf, sizesOf, statusOf } from './rules.ts'
import { databaseOperations } from './schema.ts'
import { growDisks } from './volume-storage.ts'
import { dropSpares } from './spares.ts'
import type { Database } from './store.ts'
import * as store from './store.ts'
import { makeTunnelPassword } from './tunnel-password.ts'
import { connectionView, databaseView, tunnelUser } from './view.ts'

/** Finds the named branch, by default the current one. @throws ApiError 400, 404 */
async function branchNamed({ db }: Pick<Deps, 'db'>, databaseId: string, name: string | undefined) {
  const branches = await store.branches(db, databaseId)
  const branch = branches.find(one => (name === undefined ? one.isCurrent : one.name === name))
  if (branch) return branch
  throw name === undefined ? notFound() : invalidField('branch', 'there is no such branch')
}

type FeatureDeps = Deps & { readonly live: LiveStats }

export const databaseFeature = (deps: FeatureDeps) =>
  feature(databaseOperations, { ...databaseHandlers(deps), ...branchHandlers(deps), ...backupHandlers(deps) })

const databaseHandlers = (
  deps: FeatureDeps,
): Handlers<
  Pick<
    typeof databaseOperations,
    | 'listDatabases'
    | 'getDatabase'
    | 'createDatabase'
    | 'updateDatabase'
    | 'rotateDatabasePassword'
    | 'deleteDatabase'
    | 'getDatabaseConnection'
    | 'createTunnelPassword'
    | 'streamDatabaseLogs'
    | 'streamDatabaseMetrics'
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
      // The compute image of a page server is configured by the operator.
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
        const { vcpus = null, memory_mib = null, disk_mib = null } = body
        const sizes = sizesOf({ vcpus, memory_mib, disk_mib }, now)
        if (sizes.diskMib < now.diskMib)
          throw invalidField('disk_mib', `must be at least ${now.diskMib}: disks can grow but not shrink`)
        const want = body.suspended == null ? now.want : body.suspended ? 'suspended' : 'running'
        const spares = await dropSpares(tx, now.id)
        const branches = (await store.branchIdsOf(tx, now.id)).filter(id => !spares.includes(id))
        const more = { vcpus: sizes.vcpus - now.vcpus, memoryMib: sizes.memoryMib - now.memoryMib }
        if (more.vcpus > 0 || more.memoryMib > 0) await assertSizesFit(tx, project.id, now.id, more, branches.length)
        const restarts = body.vcpus != null || body.memory_mib != null || settings !== undefined
        await store.change(tx, now.id, { ...sizes, settings: settings ?? now.settings, want, restarts })
        if (sizes.diskMib > now.diskMib) await growDisks(tx, branches, sizes.diskMib)
        await store.tryAgain(tx, now.id)
        for (const id of branches) await poke(tx, 'database', id)
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

  rotateDatabasePassword: {
    write: async call => async tx => {
      const database = await store.lock(tx, call.project.id, call.params.id)
      if (!database) throw notFound()
      await rotatePassword(deps, tx, database)
      call.audit({
        action: 'database.rotate_password',
        resourceType: 'database',
        resourceId: database.id,
        details: { name: database.name },
      })
      return viewOf(tx, await found(tx, call.project.id, database.id))
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

  getDatabaseConnection: {
    read: async ({ project, params, query }) => {
      const database = await store.inProject(deps.db, project.id, params.id)
      if (!database) throw notFound()
      const branch = await branchNamed(deps, database.id, query.branch)
      const status = statusOf(branch)
      if (status !== 'running') {
        if (!knowsPassword(branch)) throw invalidState('The password is being changed. Try again in a moment.')
        throw invalidState(`The database is ${status}; it accepts connections once it is running.`)
      }
      const { sshHost: host, sshPort: port } = deps.config.databases
      const hostKeys = await bastionKeys(deps.db, deps.clock.now())
      return connectionView(branch, deps.vault.open('database.password', database.password), { host, port, hostKeys })
    },
  },

  createTunnelPassword: {
    write: async ({ project, params, body, caller, audit }) => {
      const database = await store.inProject(deps.db, project.id, params.id)
      if (!database) throw notFound()
      const target = tunnelUser(await branchNamed(deps, database.id, body.branch ?? undefined))
      return async tx => {
        const now = deps.clock.now()
        const { password, expiresAt } = await makeTunnelPassword(tx, deps.vault, {
          caller,
          projectId: project.id,
          target,
          now,
        })
        audit({ action: 'database.tunnel_password', resourceType: 'database', resourceId: database.id })
        return { ssh_user: target, password, expires_at: expiresAt.toISOString() }
      }
    },
  },

  streamDatabaseLogs: {
    stream: async ({ project, params, query }, stream) => {
      const database = await store.inProject(deps.db, project.id, params.id)
      const branch = database && (await store.current(deps.db, [database.id])).get(database.id)
      if (!branch?.appId) throw notFound()
      const { vm, appId, deployments } = branch
      const vms = vm ? [{ ...vm, deploymentId: deployments.at(-1)?.id ?? '' }] : []
      await streamLogs(deps, stream, { projectId: project.id, appId }, vms, query.tail ?? 100)
    },
  },

  streamDatabaseMetrics: {
    stream: async ({ project, params }, stream) => {
      const database = await store.inProject(deps.db, project.id, params.id)
      const branch = database && (await store.current(deps.db, [database.id])).get(database.id)
      if (!branch?.appId) throw notFound()
      await streamMetrics(deps, stream, branch.appId)
    },
  },
})

async function viewOf(sql: Parameters<typeof store.current>[0], database: Database) {
  return databaseView(database, (await store.current(sql, [database.id])).get(database.id))
}

async function found(tx: Tx, projectId: string, id: string): Promise<Database> {
  const database = await store.inProject(tx, projectId, id)
  if (!database) throw new Error('BUG: a database that was just written does not exist')
  return database
}

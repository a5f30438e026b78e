import { bastionKeys } from '../bastion/index.ts'
import type { Deps } from '../base/deps.ts'
import { streamLogs, streamMetrics } from '../deployments/index.ts'
import type { LiveStats } from '../hosts/index.ts'
import { invalidField, invalidState, notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { rotatePassword } from './password.ts'
import { found, viewOf } from './read.ts'
import { knowsPassword, statusOf } from './rules.ts'
import type { databaseOperations } from './schema.ts'
import * as store from './store.ts'
import { makeTunnelPassword } from './tunnel-password.ts'
import { connectionView, tunnelUser } from './view.ts'

type ConnectionHandlers = Pick<
  Handlers<typeof databaseOperations>,
  | 'getDatabaseConnection'
  | 'createTunnelPassword'
  | 'rotateDatabasePassword'
  | 'streamDatabaseLogs'
  | 'streamDatabaseMetrics'
>

/** Handlers for the connection details of a running database, and for the streams of its logs and metrics. */
export const connectionHandlers = (deps: Deps & { readonly live: LiveStats }): ConnectionHandlers => ({
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

/** Finds the branch with the given name; without a name, the current branch. @throws ApiError 400, 404 */
async function branchNamed({ db }: Pick<Deps, 'db'>, databaseId: string, name: string | undefined) {
  const branches = await store.branches(db, databaseId)
  const branch = branches.find(one => (name === undefined ? one.isCurrent : one.name === name))
  if (branch) return branch
  throw name === undefined ? notFound() : invalidField('branch', 'the database has no branch of this name')
}

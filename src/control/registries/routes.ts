import { registryHost } from '../../lib/registry-host.ts'
import type { Deps } from '../base/deps.ts'
import { invalidState, notFound } from '../http/errors.ts'
import { feature } from '../http/operation.ts'
import type { Security } from '../http/ports.ts'
import { type RegistryCredential, registryOperations } from './schema.ts'
import * as store from './store.ts'
import { tokenHandlers } from './token-routes.ts'

const mostCredentials = 50

export const registryFeature = (deps: Pick<Deps, 'db' | 'vault' | 'config' | 'clock'>, security: Security) =>
  feature(registryOperations, {
    ...tokenHandlers(deps, security),
    listRegistryCredentials: {
      read: async ({ project }) => (await store.credentialsOf(deps.db, project.id)).map(viewOf),
    },
    putRegistryCredential: {
      write: async ({ body, project, audit }) => {
        const host = registryHost(body.host)
        const secret = deps.vault.seal('registry.credential', body.password)
        return async tx => {
          const known = await store.credentialsOf(tx, project.id)
          if (known.length >= mostCredentials && !known.some(one => one.host === host))
            throw invalidState(`A project can have at most ${mostCredentials} registry credentials. Delete one first.`)
          const row = await store.putCredential(tx, project.id, { host, username: body.username, secret })
          const details = { host, username: row.username }
          audit({ action: 'registry.login', resourceType: 'project', resourceId: project.id, details })
          return viewOf(row)
        }
      },
    },
    deleteRegistryCredential: {
      write: async ({ params, project, audit }) => {
        const host = registryHost(params.host)
        return async tx => {
          if (!(await store.removeCredential(tx, project.id, host))) throw notFound()
          audit({ action: 'registry.logout', resourceType: 'project', resourceId: project.id, details: { host } })
          return { status: 'deleted' as const }
        }
      },
    },
  })

const viewOf = (row: store.RegistryCredentialRow): RegistryCredential => ({
  host: row.host,
  username: row.username,
  updated_at: row.updatedAt.toISOString(),
})

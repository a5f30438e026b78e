import type { Deps } from '../base/deps.ts'
import { notFound } from '../http/errors.ts'
import { feature } from '../http/operation.ts'
import { credentialHandlers } from './credential-routes.ts'
import { appNamed } from './credential-store.ts'
import { effects } from './effect-store.ts'
import { installHandlers } from './install-routes.ts'
import type { SourceHost } from './provider.ts'
import type { Repository, ScmAccount, ScmDelivery } from './resources.ts'
import { scmOperations } from './schema.ts'
import * as store from './store.ts'

export const scmFeature = (deps: Deps, host: SourceHost | undefined) =>
  feature(scmOperations, {
    ...credentialHandlers(deps),
    ...installHandlers(deps, host),

    listScmDeliveries: {
      read: async ({ project, params }) => {
        const app = await appNamed(deps.db, project.id, params.app_name)
        if (!app) throw notFound()
        return (await effects(deps.db, app.id)).map(
          (one): ScmDelivery => ({
            id: one.deliveryId,
            event: one.event,
            status: one.status,
            reason: one.reason,
            branch: one.branch,
            commit_hash: one.commit,
            received_at: one.receivedAt.toISOString(),
          }),
        )
      },
    },

    listRepositories: {
      read: async ({ project }) => {
        const found: Repository[] = []
        for (const { id, state } of await store.installations(deps.db, project.id))
          if (host && state === 'active')
            found.push(...(await host.repositories(id)).map(one => ({ ...one, installation_id: id })))
        return found.toSorted((a, b) => a.full_name.localeCompare(b.full_name))
      },
    },

    listScmAccounts: {
      read: async ({ project }) =>
        (await store.installations(deps.db, project.id)).map(
          (one): ScmAccount => ({
            installation_id: one.id,
            login: one.login,
            type: one.accountType,
            avatar_url: one.avatarUrl,
          }),
        ),
    },
  })

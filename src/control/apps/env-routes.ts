/** Environment variables of an app. Secret values are never returned. VMs get changes with the next deployment. */
import type { Deps } from '../base/deps.ts'
import { invalidState, notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { appSize, changeVariables, checkEnvName, checkEnvSize } from '../variables/index.ts'
import * as env from './env-store.ts'
import type { appOperations } from './schema.ts'
import * as store from './store.ts'

type EnvOperations = Pick<typeof appOperations, 'listAppEnv' | 'putAppEnv' | 'deleteAppEnv'>

export const envHandlers = (deps: Pick<Deps, 'db' | 'vault'>): Handlers<EnvOperations> => ({
  listAppEnv: {
    read: async ({ project, params }) => {
      const app = await store.byName(deps.db, project.id, params.app_name)
      if (!app) throw notFound()
      return (await env.list(deps.db, app.id)).map(({ name, updatedAt, plain }) => ({
        name,
        updated_at: updatedAt.toISOString(),
        secret: plain === null,
        value: plain === null ? null : deps.vault.open('app.env', plain),
      }))
    },
  },
  putAppEnv: {
    write: async call => {
      const name = checkEnvName(call.params.name)
      const sealed = deps.vault.seal('app.env', call.body.value)
      return async tx => {
        const app = await store.lock(tx, call.project.id, call.params.app_name)
        if (!app) throw notFound()
        if (app.envOf !== null)
          throw invalidState(`${app.name} gets the variables of ${app.envOf}. Set the variable there.`)
        await changeVariables(tx, { kind: 'app', id: app.id, authorId: call.caller.userId }, async () => {
          await env.put(tx, app.id, { name, sealed, isPlain: call.body.secret === false })
          return { set: [name], removed: [] }
        })
        await store.settingsChanged(tx, app.id)
        checkEnvSize('an app', await appSize(tx, app.id))
        call.audit({ action: 'app.env.set', resourceType: 'app', resourceId: app.id, details: { app: app.name, name } })
        return { status: 'set' as const }
      }
    },
  },
  deleteAppEnv: {
    write: async call => async tx => {
      const app = await store.lock(tx, call.project.id, call.params.app_name)
      if (!app) throw notFound()
      await changeVariables(tx, { kind: 'app', id: app.id, authorId: call.caller.userId }, async () => {
        if (!(await env.remove(tx, app.id, call.params.name))) throw notFound()
        return { set: [], removed: [call.params.name] }
      })
      await store.settingsChanged(tx, app.id)
      call.audit({
        action: 'app.env.delete',
        resourceType: 'app',
        resourceId: app.id,
        details: { app: app.name, name: call.params.name },
      })
      return { status: 'deleted' as const }
    },
  },
})

/**
 * Handlers for groups of environment variables and for versions of variables. They never return the values of secrets.
 */
import { uniqueViolation } from '../../db/errors.ts'
import type { Tx } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import type { Deps } from '../base/deps.ts'
import { invalidField, invalidState, nameTaken, notFound } from '../http/errors.ts'
import { feature, type Handlers } from '../http/operation.ts'
import { checkEnvName, checkEnvSize, maxGroups } from './rules.ts'
import { variableOperations } from './schema.ts'
import * as store from './store.ts'
import { changeVariables, type EnvVersion, listVersions, restoreVersion } from './version-store.ts'

export const variableFeature = (deps: Pick<Deps, 'db' | 'vault'>) =>
  feature(variableOperations, { ...groupHandlers(deps), ...groupVariableHandlers(deps), ...appHandlers(deps) })

type Operations = typeof variableOperations
type GroupHandlers = Handlers<Pick<Operations, 'listEnvGroups' | 'createEnvGroup' | 'deleteEnvGroup'>>
type GroupVariableHandlers = Handlers<
  Pick<
    Operations,
    | ('listEnvGroupVariables' | 'putEnvGroupVariable' | 'deleteEnvGroupVariable')
    | ('listEnvGroupVersions' | 'restoreEnvGroupVersion')
  >
>
type AppHandlers = Handlers<
  Pick<Operations, 'listAppEnvGroups' | 'setAppEnvGroups' | 'listAppEnvVersions' | 'restoreAppEnvVersion'>
>

const groupHandlers = ({ db }: Pick<Deps, 'db'>): GroupHandlers => ({
  listEnvGroups: { read: async ({ project }) => (await store.list(db, project.id)).map(viewOf) },
  createEnvGroup: {
    write: async call => async tx => {
      const { name } = call.body
      const id = newId()
      const made = await store
        .insert(tx, { id, projectId: call.project.id, name }, maxGroups)
        .catch((cause: unknown) => {
          throw uniqueViolation(cause, 'env_group_name') ? nameTaken('environment group', name) : cause
        })
      if (!made) throw invalidState(`A project can have at most ${maxGroups} environment groups.`)
      call.audit({ action: 'env_group.create', resourceType: 'env_group', resourceId: id, details: { name } })
      const group = await store.byName(tx, call.project.id, name)
      if (!group) throw new Error('BUG: the new group is missing')
      return viewOf(group)
    },
  },
  deleteEnvGroup: {
    write: async call => async tx => {
      const name = call.params.group_name
      const locked = await store.lock(tx, call.project.id, name)
      const group = locked && (await store.byName(tx, call.project.id, name))
      if (!group) throw notFound()
      if (group.apps.length > 0)
        throw invalidState(`The group ${name} is attached to ${group.apps.join(', ')}. Detach it first.`)
      await store.remove(tx, group.id)
      call.audit({ action: 'env_group.delete', resourceType: 'env_group', resourceId: group.id, details: { name } })
      return { status: 'deleted' as const }
    },
  },
})

const groupVariableHandlers = ({ db, vault }: Pick<Deps, 'db' | 'vault'>): GroupVariableHandlers => ({
  listEnvGroupVariables: {
    read: async ({ project, params }) => {
      const group = await store.byName(db, project.id, params.group_name)
      if (!group) throw notFound()
      return (await store.values(db, group.id)).map(({ name, updatedAt, plain }) => ({
        name,
        updated_at: updatedAt.toISOString(),
        secret: plain === null,
        value: plain === null ? null : vault.open('app.env', plain),
      }))
    },
  },
  putEnvGroupVariable: {
    write: async call => {
      const name = checkEnvName(call.params.name)
      const value = { sealed: vault.seal('app.env', call.body.value), isPlain: call.body.secret === false }
      return async tx => {
        const group = await store.lock(tx, call.project.id, call.params.group_name)
        if (!group) throw notFound()
        await changeVariables(tx, { kind: 'group', id: group.id, authorId: call.caller.userId }, async () => {
          await store.put(tx, group.id, name, value)
          return { set: [name], removed: [] }
        })
        await groupChanged(tx, group)
        const details = { group: call.params.group_name, name }
        call.audit({ action: 'env_group.set', resourceType: 'env_group', resourceId: group.id, details })
        return { status: 'set' as const }
      }
    },
  },
  deleteEnvGroupVariable: {
    write: async call => async tx => {
      const { group_name, name } = call.params
      const group = await store.lock(tx, call.project.id, group_name)
      if (!group) throw notFound()
      await changeVariables(tx, { kind: 'group', id: group.id, authorId: call.caller.userId }, async () => {
        if (!(await store.removeValue(tx, group.id, name))) throw notFound()
        return { set: [], removed: [name] }
      })
      await groupChanged(tx, group)
      const details = { group: group_name, name }
      call.audit({ action: 'env_group.unset', resourceType: 'env_group', resourceId: group.id, details })
      return { status: 'deleted' as const }
    },
  },
  listEnvGroupVersions: {
    read: async ({ project, params }) => {
      const group = await store.byName(db, project.id, params.group_name)
      if (!group) throw notFound()
      return (await listVersions(db, 'group', group.id)).map(versionView)
    },
  },
  restoreEnvGroupVersion: {
    write: async call => async tx => {
      const group = await store.lock(tx, call.project.id, call.params.group_name)
      const version = versionIn(call.params.version)
      const owner = group && ({ kind: 'group', id: group.id, authorId: call.caller.userId } as const)
      if (!group || !owner || !(await restoreVersion(tx, owner, version))) throw notFound()
      await groupChanged(tx, group)
      const details = { group: call.params.group_name, version }
      call.audit({ action: 'env_group.restore', resourceType: 'env_group', resourceId: group.id, details })
      return { status: 'restored' as const }
    },
  },
})

const appHandlers = ({ db }: Pick<Deps, 'db'>): AppHandlers => ({
  listAppEnvGroups: {
    read: async ({ project, params }) => {
      const app = await store.app(db, project.id, params.app_name)
      if (!app) throw notFound()
      return [...(await store.attached(db, app.id))]
    },
  },
  setAppEnvGroups: {
    write: async call => async tx => {
      const { groups } = call.body
      const app = await ownEnvironment(tx, call.project.id, call.params.app_name)
      const found = new Map((await store.hold(tx, call.project.id, groups)).map(({ id, name }) => [name, id]))
      const ids = groups.map((name, at) => {
        const id = found.get(name)
        if (id === undefined) throw invalidField('groups', `there is no environment group ${name}`)
        if (groups.indexOf(name) !== at) throw invalidField('groups', `${name} is in the list twice`)
        return id
      })
      await store.attachAll(tx, app.id, ids)
      checkEnvSize(app.name, await store.appSize(tx, app.id))
      await store.settingsChanged(tx, [app.id])
      const details = { app: app.name, groups: [...groups] }
      call.audit({ action: 'app.env_groups', resourceType: 'app', resourceId: app.id, details })
      return { status: 'set' as const }
    },
  },
  listAppEnvVersions: {
    read: async ({ project, params }) => {
      const app = await store.app(db, project.id, params.app_name)
      if (!app) throw notFound()
      return (await listVersions(db, 'app', app.id)).map(versionView)
    },
  },
  restoreAppEnvVersion: {
    write: async call => async tx => {
      const app = await store.lockApp(tx, call.project.id, call.params.app_name)
      if (!app) throw notFound()
      const version = versionIn(call.params.version)
      if (!(await restoreVersion(tx, { kind: 'app', id: app.id, authorId: call.caller.userId }, version)))
        throw notFound()
      checkEnvSize(app.name, await store.appSize(tx, app.id))
      await store.settingsChanged(tx, [app.id])
      const details = { app: app.name, version }
      call.audit({ action: 'app.env.restore', resourceType: 'app', resourceId: app.id, details })
      return { status: 'restored' as const }
    },
  },
})

/**
 * Locks the app to change its variables.
 * @throws ApiError 404, or 409 for a worker that uses the variables of another app
 */
async function ownEnvironment(tx: Tx, projectId: string, name: string): Promise<store.EnvApp> {
  const app = await store.lockApp(tx, projectId, name)
  if (!app) throw notFound()
  if (app.envOf !== null) throw invalidState(`${app.name} gets the variables of ${app.envOf}. Attach groups there.`)
  return app
}

/**
 * Handles a change of a group's variables: checks the size limits of the group and of the apps that it is attached to,
 * and records that these apps need a new deployment.
 */
async function groupChanged(tx: Tx, { id, appIds }: { id: string; appIds: readonly string[] }): Promise<void> {
  checkEnvSize('a group', await store.groupSize(tx, id))
  for (const appId of appIds) {
    const { app, ...size } = await store.appSize(tx, appId)
    checkEnvSize(app, size)
  }
  if (appIds.length > 0) await store.settingsChanged(tx, appIds)
}

/** Parses the version number of a path. @throws ApiError 404 if the text is not a version number */
function versionIn(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw notFound()
  return Number(text)
}

const viewOf = ({ id, name, variables, apps, createdAt }: store.Group) => ({
  id,
  name,
  variables,
  apps: [...apps],
  created_at: createdAt.toISOString(),
})

const versionView = ({ version, createdAt, author, set, removed, restored }: EnvVersion) => ({
  version,
  created_at: createdAt.toISOString(),
  author,
  set: [...set],
  removed: [...removed],
  restored,
})

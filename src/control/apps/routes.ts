import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import type { Deps } from '../base/deps.ts'
import { assertRetained, checkSource, deployFromSource, deployFromUpload } from '../builds/index.ts'
import { type DeployBody, assertHostsHold, assertReplicasFit, deploy } from '../deployments/index.ts'
import { wakeApp } from '../scaling/index.ts'
import { invalidField, invalidState, notFound } from '../http/errors.ts'
import { feature, type Handlers } from '../http/operation.ts'
import { createPages } from '../http/pages.ts'
import { isFiltered, windowOf } from '../http/paging.ts'
import { assertAllowed, lockLimits } from '../projects/index.ts'
import { assertScalable, writerOf } from '../volumes/index.ts'
import { prepareApp, scaleOf } from './create.ts'
import { startDeletingApp } from './end.ts'
import { envHandlers } from './env-routes.ts'
import * as rules from './rules.ts'
import { appOperations } from './schema.ts'
import * as store from './store.ts'
import { appView } from './view.ts'

export const appFeature = (deps: Deps) =>
  feature(appOperations, {
    ...envHandlers(deps),
    ...listHandler(deps),

    getApp: {
      read: async ({ project, params }) => {
        const app = await store.byName(deps.db, project.id, params.app_name)
        if (!app) throw notFound()
        return appView(app)
      },
    },

    createApp: {
      write: async call => {
        const create = prepareApp(deps, call.project, call.body)
        return async tx => {
          const app = await create(tx)
          call.audit({ action: 'app.create', resourceType: 'app', resourceId: app.id, details: { name: app.name } })
          return appView(app)
        }
      },
    },

    updateApp: {
      write: async call => {
        const { body } = call
        const change = {
          port: rules.checkPort(body.port),
          gitUrl: body.git_url == null ? undefined : rules.checkGitUrl(body.git_url),
          gitBranch: body.git_branch == null ? undefined : rules.checkBranch(body.git_branch),
          gitSubmodules: body.git_submodules ?? undefined,
          healthCheckPath: body.health_check_path == null ? undefined : rules.checkHealthPath(body.health_check_path),
          drainTimeout: body.drain_timeout == null ? undefined : rules.checkDrainTimeout(body.drain_timeout),
          scmInstallationId: body.scm_installation_id ?? undefined,
          scmRepoFullName: body.scm_repo_full_name ?? undefined,
          scmRepoId: body.scm_repo_id ?? undefined,
        }
        return async tx => {
          const app = await store.lock(tx, call.project.id, call.params.app_name)
          if (!app) throw notFound()
          const changed = await store.change(tx, app, change)
          call.audit({
            action: 'app.update',
            resourceType: 'app',
            resourceId: app.id,
            details: { name: app.name, ...change },
          })
          return appView(changed)
        }
      },
    },

    deleteApp: {
      write: async call => async tx => {
        const app = await store.lock(tx, call.project.id, call.params.app_name)
        if (!app) throw notFound()
        await startDeletingApp(tx, app.id)
        call.audit({ action: 'app.delete', resourceType: 'app', resourceId: app.id, details: { name: app.name } })
        return { status: 'deleting' as const }
      },
    },

    getAppSecret: {
      read: async ({ project, params }) => {
        const app = await store.byName(deps.db, project.id, params.app_name)
        if (!app) throw notFound()
        return {
          scm_webhook_secret: deps.vault.open('app.webhook', app.scmWebhookSecret),
          // By id, because apps of other projects may have the same name.
          webhook_url: `${deps.config.publicUrl}/v1/webhooks/scm/${app.id}`,
        }
      },
    },

    scaleApp: {
      write: async call => async tx => {
        const app = await store.lock(tx, call.project.id, call.params.app_name)
        if (!app) throw notFound()
        const scale = scaleOf(call.body, app)
        assertScalable(scale.maxReplicas, await writerOf(tx, app.id))
        if (scale.autoscalingEnabled && !app.autoscalingEnabled)
          assertAllowed(await lockLimits(tx, call.project.id), 'autoscalingAllowed')
        if (app.activeDeploymentId)
          await assertReplicasFit(
            tx,
            call.project.id,
            app.activeDeploymentId,
            scale.desiredReplicas - app.desiredReplicas,
          )
        const waiting =
          app.activeDeploymentId && scale.desiredReplicas > app.desiredReplicas
            ? await assertHostsHold(deps, tx, app.activeDeploymentId, scale.desiredReplicas)
            : undefined
        const changed = await store.changeScale(tx, app.id, scale)
        if (app.activeDeploymentId) await poke(tx, 'deployment', app.activeDeploymentId)
        if (scale.minReplicas > 0) await wakeApp(tx, app.id)
        call.audit({
          action: 'app.scale',
          resourceType: 'app',
          resourceId: app.id,
          details: { name: app.name, ...scale },
        })
        return { ...appView(changed), message: waiting ?? null }
      },
    },

    deploy: {
      write: async call => {
        const { app_name: name, git_url } = call.body
        const create = prepareApp(deps, call.project, { name, git_url: git_url ?? '', port: call.body.port ?? null })
        return async tx => {
          const found = await store.lock(tx, call.project.id, name)
          if (!found && call.body.dry_run) throw notFound()
          const app = found ? await followRepository(tx, found, call.body) : await create(tx)
          return rollOut(deps, call, tx, app, call.body)
        }
      },
    },

    deployApp: {
      write: async call => {
        const upload = await sentSource(deps, call.project.id, call.params.app_name, call.body)
        return async tx => {
          const app = await store.lock(tx, call.project.id, call.params.app_name)
          if (!app) throw notFound()
          return upload === undefined
            ? rollOut(deps, call, tx, app, call.body)
            : deployFromUpload(deps, call, tx, app, call.body, upload)
        }
      },
    },
  })

/** Returns the digest of the named source after checking that it is retained; undefined when the request names none. */
async function sentSource(
  { db, config }: Deps,
  projectId: string,
  name: string,
  { source, image }: { readonly source?: string | null; readonly image?: string | null },
): Promise<string | undefined> {
  if (source == null) return undefined
  if (image) throw invalidField('source', 'cannot be combined with an image; leave one of them out')
  const digest = checkSource(source)
  const app = await store.byName(db, projectId, name)
  if (!app) throw notFound()
  await assertRetained(config.sourceDir, app.id, digest)
  return digest
}

/** Deploys the named image, otherwise the app's repository, otherwise the previous image. */
const rollOut = (deps: Deps, call: Parameters<typeof deploy>[1], tx: Tx, app: store.App, body: DeployBody) =>
  !body.image && app.gitUrl !== '' ? deployFromSource(deps, call, tx, app, body) : deploy(deps, call, tx, app, body)

/** Switches the app to the repository that a deployment names. */
async function followRepository(
  tx: Tx,
  app: store.App,
  { git_url: gitUrl, dry_run: isDryRun }: { readonly git_url?: string | null; readonly dry_run?: boolean | null },
): Promise<store.App> {
  if (!gitUrl || gitUrl === app.gitUrl || isDryRun) return app
  if (app.scmRepoId !== null)
    throw invalidState(
      'The app is connected to a repository of the git host. Change git_url and scm_repo_id together, with PATCH.',
    )
  return store.change(tx, app, { ...keep, gitUrl: rules.checkGitUrl(gitUrl) })
}

const keep = {
  port: undefined,
  healthCheckPath: undefined,
  drainTimeout: undefined,
  scmInstallationId: undefined,
  gitBranch: undefined,
  gitSubmodules: undefined,
  scmRepoFullName: undefined,
  scmRepoId: undefined,
}

function listHandler({ db }: Pick<Deps, 'db'>): Pick<Handlers<typeof appOperations>, 'listApps'> {
  const pages = createPages()
  return {
    listApps: {
      async read({ project: { id }, page }) {
        if (isFiltered(page)) return (await store.all(db, id)).map(appView)
        const { before } = windowOf(page)
        const key = `${id} ${page.limit} ${page.offset} ${before}`
        return pages.latest(key, mark => store.list(db, id, page, before, mark))
      },
    },
  }
}

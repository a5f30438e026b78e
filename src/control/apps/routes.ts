import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import type { Deps } from '../base/deps.ts'
import { buildSettingsOf } from '../builds/index.ts'
import { assertHostsHold, assertReplicasFit } from '../deployments/index.ts'
import { wakeApp } from '../scaling/index.ts'
import { notFound } from '../http/errors.ts'
import { feature, type Handlers } from '../http/operation.ts'
import { createPages } from '../http/pages.ts'
import { isFiltered, windowOf } from '../http/paging.ts'
import { assertAllowed, lockLimits } from '../projects/index.ts'
import { assertScalable, writerOf } from '../volumes/index.ts'
import { prepareApp, scaleOf } from './create.ts'
import { deployHandlers } from './deploy-routes.ts'
import { startDeletingApp } from './end.ts'
import { envHandlers } from './env-routes.ts'
import { hostsOf } from './host-settings.ts'
import * as rules from './rules.ts'
import { appOperations } from './schema.ts'
import * as store from './store.ts'
import { appView, around } from './view.ts'

export const appFeature = (deps: Deps) =>
  feature(appOperations, {
    ...envHandlers(deps),
    ...deployHandlers(deps),
    ...listHandler(deps),

    getApp: {
      read: async ({ project, params }) => {
        const app = await store.byName(deps.db, project.id, params.app_name)
        if (!app) throw notFound()
        return appView(app, deps.config)
      },
    },

    createApp: {
      write: async call => {
        const create = prepareApp(deps, call.project, call.body)
        return async tx => {
          const app = await create(tx)
          call.audit({ action: 'app.create', resourceType: 'app', resourceId: app.id, details: { name: app.name } })
          return appView(app, deps.config)
        }
      },
    },

    updateApp: {
      write: async call => {
        const { body } = call
        const change = {
          port: rules.checkPort(body.port),
          command: body.command == null ? undefined : rules.checkProgram(body.command),
          arguments: body.arguments == null ? undefined : rules.checkArguments(body.arguments),
          gitUrl: body.git_url == null ? undefined : rules.checkGitUrl(body.git_url),
          gitBranch: body.git_branch == null ? undefined : rules.checkBranch(body.git_branch),
          gitSubmodules: body.git_submodules ?? undefined,
          healthCheckPath: body.health_check_path == null ? undefined : rules.checkHealthPath(body.health_check_path),
          releaseCommand: body.release_command == null ? undefined : rules.checkCommand(body.release_command),
          drainTimeout: body.drain_timeout == null ? undefined : rules.checkDrainTimeout(body.drain_timeout),
          canary: body.canary == null ? undefined : rules.canaryOf(body.canary),
          strategy: body.strategy ?? undefined,
          hosts: body.hosts == null ? undefined : hostsOf(body.hosts),
          restart: body.restart == null ? undefined : rules.restartOf(body.restart),
          build: body.build == null ? undefined : buildSettingsOf(body.build),
          scmInstallationId: body.scm_installation_id ?? undefined,
          scmRepoFullName: body.scm_repo_full_name ?? undefined,
          scmRepoId: body.scm_repo_id ?? undefined,
        }
        return async tx => {
          const app = await store.lock(tx, call.project.id, call.params.app_name)
          if (!app) throw notFound()
          if (change.canary) rules.assertCanBeCanary(app.kind)
          const changed = await store.change(tx, app, change)
          rules.assertOneStrategy(changed)
          call.audit({
            action: 'app.update',
            resourceType: 'app',
            resourceId: app.id,
            details: { name: app.name, ...change },
          })
          return appView(changed, deps.config)
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
          // The webhook's URL contains the app's id, because apps of other projects may have the same name.
          webhook_url: `${deps.config.publicUrl}/v1/webhooks/scm/${app.id}`,
        }
      },
    },

    scaleApp: {
      write: async call => async tx => {
        const app = await store.lock(tx, call.project.id, call.params.app_name)
        if (!app) throw notFound()
        const scale = scaleOf(call.body, app)
        const { changed, waiting } = await changeScale(deps, tx, call.project.id, app, scale)
        call.audit({
          action: 'app.scale',
          resourceType: 'app',
          resourceId: app.id,
          details: { name: app.name, ...scale },
        })
        return { ...appView(changed, deps.config), message: waiting ?? null }
      },
    },
  })

/**
 * Changes the number of replicas. Returns the app, and a message for the user if replicas have to wait for capacity.
 */
async function changeScale(
  deps: Pick<Deps, 'db' | 'config'>,
  tx: Tx,
  projectId: string,
  app: store.App,
  scale: ReturnType<typeof scaleOf>,
): Promise<{ readonly changed: store.App; readonly waiting: string | undefined }> {
  const { activeDeploymentId } = app
  assertScalable(scale.maxReplicas, await writerOf(tx, app.id))
  if (scale.autoscalingEnabled && !app.autoscalingEnabled)
    assertAllowed(await lockLimits(tx, projectId), 'autoscalingAllowed')
  if (activeDeploymentId)
    await assertReplicasFit(tx, projectId, activeDeploymentId, scale.desiredReplicas - app.desiredReplicas)
  const waiting =
    activeDeploymentId && scale.desiredReplicas > app.desiredReplicas
      ? await assertHostsHold(deps, tx, activeDeploymentId, scale.desiredReplicas)
      : undefined
  const changed = await store.changeScale(tx, app.id, scale)
  if (activeDeploymentId) await poke(tx, 'deployment', activeDeploymentId)
  if (scale.minReplicas > 0) await wakeApp(tx, app.id)
  return { changed, waiting }
}

function listHandler({ db, config }: Pick<Deps, 'db' | 'config'>): Pick<Handlers<typeof appOperations>, 'listApps'> {
  const pages = createPages()
  const urlParts = around(config.gatewayUrl)
  return {
    listApps: {
      async read({ project: { id }, page }) {
        if (isFiltered(page)) return (await store.all(db, id)).map(app => appView(app, config))
        const { before } = windowOf(page)
        const key = `${id} ${page.limit} ${page.offset} ${before}`
        return pages.latest(key, mark => store.list(db, id, { ...page, around: urlParts }, before, mark))
      },
    },
  }
}

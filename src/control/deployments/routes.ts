import type { Tx } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import type { LiveStats } from '../hosts/index.ts'
import { invalidState, notFound } from '../http/errors.ts'
import { feature } from '../http/operation.ts'
import { listById } from '../http/paging.ts'
import { isUsable } from './image-access.ts'
import { type Verb, statusOf } from './rules.ts'
import { deploymentOperations } from './schema.ts'
import * as lists from './list-store.ts'
import { requestsOf } from './request-counts.ts'
import * as store from './store.ts'
import { appOf, type JobCall, jobOf, streamHandlers } from './stream-routes.ts'
import { activatedBy } from './author.ts'
import { compare } from './diff.ts'
import { apply } from './verbs.ts'
import { deploymentView, liveView, statusView } from './view.ts'

interface VerbCall extends JobCall {
  audit(note: { action: string; resourceType: string; resourceId: string; details: Record<string, unknown> }): void
}

export const deploymentFeature = (deps: Deps & { readonly live: LiveStats }) => {
  const verb = (name: Verb) => async (call: VerbCall) => async (tx: Tx) => {
    const d = await store.lockInApp(tx, call.project.id, call.params.app_name, call.params.job_id)
    if (!d) throw notFound()
    await apply(tx, name, d)
    call.audit({
      action: `deployment.${name}`,
      resourceType: 'deployment',
      resourceId: d.id,
      details: { app: d.appName },
    })
    const now = await store.byId(tx, d.id)
    return { job_id: d.jobId, deployment_id: d.id, status: now ? statusOf(now) : 'deleted' }
  }
  return feature(deploymentOperations, {
    ...streamHandlers(deps),

    listDeployments: {
      read: async ({ project, params, page }) => {
        await appOf(deps, project.id, params.app_name)
        return listById(page, window => lists.list(deps.db, project.id, params.app_name, window), deploymentView)
      },
    },
    listActiveDeployments: {
      read: ({ project, page }) =>
        listById(
          page,
          window => lists.activeOnes(deps.db, project.id, window),
          d => liveView(d, deps.live),
        ),
    },
    getDeployment: { read: async call => statusView(await jobOf(deps, call), deps.live) },

    compareDeployment: { read: ({ project, params, query }) => compare(deps, project.id, params, query.base) },

    activateDeployment: {
      write: async call => async tx => {
        const d = await store.lockInApp(tx, call.project.id, call.params.app_name, call.params.deployment_id)
        if (!d) throw notFound()
        if (!(await isUsable(tx, deps.config, call.project.id, d.image)))
          throw invalidState('The image of this deployment was not built in this project. Deploy another image.')
        await apply(tx, 'activate', d)
        if (d.activeDeploymentId !== d.id) await activatedBy(tx, d.id, call.caller.userId)
        call.audit({
          action: 'deployment.activate',
          resourceType: 'deployment',
          resourceId: d.id,
          details: { app: d.appName },
        })
        const now = (await store.byId(tx, d.id)) ?? d
        return deploymentView({ ...now, ...(await requestsOf(tx, d.id)) })
      },
    },
    stopDeployment: { write: verb('stop') },
    cancelDeployment: { write: verb('cancel') },
    pauseDeployment: { write: verb('pause') },
    resumeDeployment: { write: verb('resume') },
    deleteDeployment: { write: verb('delete') },
  })
}

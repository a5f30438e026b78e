import type { Tx } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { feed, projectEvents } from '../events/index.ts'
import { projectEventKinds } from '../events/schema.ts'
import type { LiveStats } from '../hosts/index.ts'
import { invalidState, notFound } from '../http/errors.ts'
import { feature } from '../http/operation.ts'
import { isFor } from '../notifications/index.ts'
import { listById, newest } from '../http/paging.ts'
import { isUsable } from './image-access.ts'
import { streamLogs } from './logs.ts'
import { streamMetrics } from './metrics.ts'
import { type Verb, statusOf } from './rules.ts'
import { deploymentOperations } from './schema.ts'
import type { Deployment } from './store.ts'
import * as lists from './list-store.ts'
import * as store from './store.ts'
import { apply } from './verbs.ts'
import { deploymentView, liveView, statusView } from './view.ts'

interface JobCall {
  readonly project: { readonly id: string }
  readonly params: { readonly app_name: string; readonly job_id: string }
  audit(note: { action: string; resourceType: string; resourceId: string; details: Record<string, unknown> }): void
}

export const deploymentFeature = (deps: Deps & { readonly live: LiveStats }) => {
  const streams = { db: deps.db, events: projectEvents(deps.bus) }
  const job = async (call: Pick<JobCall, 'project' | 'params'>): Promise<Deployment> => {
    const d = await store.inApp(deps.db, call.project.id, call.params.app_name, call.params.job_id)
    if (!d) throw notFound()
    return d
  }
  const app = async (projectId: string, name: string) => {
    const found = await store.appRef(deps.db, projectId, name)
    if (!found) throw notFound()
    return found
  }
  const verb = (name: Verb) => async (call: JobCall) => async (tx: Tx) => {
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
  const statusFeed = (projectId: string, appName?: string) => ({
    projectId,
    snapshot: async () => ({
      deployments: (appName
        ? await lists.list(deps.db, projectId, appName, newest(100))
        : await lists.live(deps.db, projectId, newest(100))
      ).map(deploymentView),
    }),
  })

  return feature(deploymentOperations, {
    listDeployments: {
      read: async ({ project, params, page }) => {
        await app(project.id, params.app_name)
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
    getDeployment: { read: async call => statusView(await job(call), deps.live) },

    activateDeployment: {
      write: async call => async tx => {
        const d = await store.lockInApp(tx, call.project.id, call.params.app_name, call.params.deployment_id)
        if (!d) throw notFound()
        if (!(await isUsable(tx, deps.config.registry, call.project.id, d.image)))
          throw invalidState('Its image was not built in this project. Deploy another image.')
        await apply(tx, 'activate', d)
        call.audit({
          action: 'deployment.activate',
          resourceType: 'deployment',
          resourceId: d.id,
          details: { app: d.appName },
        })
        return deploymentView((await store.byId(tx, d.id)) ?? d)
      },
    },
    stopDeployment: { write: verb('stop') },
    cancelDeployment: { write: verb('cancel') },
    pauseDeployment: { write: verb('pause') },
    resumeDeployment: { write: verb('resume') },
    deleteDeployment: { write: verb('delete') },

    streamDeployments: {
      stream: async ({ project, params }, stream) => {
        const { id } = await app(project.id, params.app_name)
        await feed(streams, stream, {
          ...statusFeed(project.id, params.app_name),
          kinds: ['deployment.status'],
          accepts: event => event.appId === id,
        })
      },
    },
    streamAllDeployments: {
      stream: async ({ project }, stream) =>
        feed(streams, stream, { ...statusFeed(project.id), kinds: ['deployment.status'] }),
    },
    streamWorkspace: {
      stream: async ({ project, caller }, stream) =>
        feed(streams, stream, {
          ...statusFeed(project.id),
          kinds: projectEventKinds,
          accepts: event => isFor(event, caller.userId),
        }),
    },
    streamAppLogs: {
      stream: async ({ project, params, query }, stream) => {
        const { id } = await app(project.id, params.app_name)
        const vms = await store.vmsOfApp(deps.db, id)
        await streamLogs(deps, stream, { projectId: project.id, appId: id }, vms, query.tail ?? 100)
      },
    },
    streamDeploymentLogs: {
      stream: async (call, stream) => {
        const d = await job(call)
        const vms = [...(d.build ? [d.build] : []), ...d.vms].map(vm => ({
          id: vm.id,
          hostId: vm.hostId,
          deploymentId: d.id,
        }))
        const scope = { projectId: call.project.id, appId: d.appId, deploymentId: d.id }
        await streamLogs(deps, stream, scope, vms, call.query.tail ?? 100)
      },
    },
    streamAppMetrics: {
      stream: async ({ project, params }, stream) => {
        const { id } = await app(project.id, params.app_name)
        await streamMetrics(deps, stream, id)
      },
    },
  })
}

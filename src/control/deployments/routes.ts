import type { Tx } from '../../db/db.ts'
import { createMachine, poke } from '../../engine/runner.ts'
import { minutes } from '../../lib/duration.ts'
import type { Deps } from '../deps.ts'
import { feed, projectEvents } from '../events/index.ts'
import type { LiveStats } from '../hosts/index.ts'
import { invalidState, notFound } from '../http/errors.ts'
import { feature } from '../http/operation.ts'
import { isFor } from '../notifications/index.ts'
import { pageOf } from '../http/paging.ts'
import { refreshRoute } from '../routing/index.ts'
import { announceById } from './announce.ts'
import { removeDeployment, takeDown } from './end.ts'
import { assertReplicasFit } from './limits.ts'
import { streamLogs } from './logs.ts'
import { streamMetrics } from './metrics.ts'
import { type Verb, assertCan, statusOf } from './rules.ts'
import { deploymentOperations } from './schema.ts'
import type { Deployment } from './store.ts'
import * as lists from './list-store.ts'
import * as store from './store.ts'
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
  /** Every verb is the same: find it, check that its status allows the verb, write the wish, answer what it is now. */
  const verb =
    (name: Verb, act: (tx: Tx, d: Deployment) => Promise<void>) => async (call: JobCall) => async (tx: Tx) => {
      const d = await store.lockInApp(tx, call.project.id, call.params.app_name, call.params.job_id)
      if (!d) throw notFound()
      assertCan(name, statusOf(d))
      await act(tx, d)
      await announceById(tx, d.id)
      call.audit({
        action: `deployment.${name}`,
        resourceType: 'deployment',
        resourceId: d.id,
        details: { app: d.appName },
      })
      const now = await store.byId(tx, d.id)
      return { job_id: d.jobId, deployment_id: d.id, status: now ? statusOf(now) : 'deleted' }
    }
  const wish = (want: 'running' | 'paused') => async (tx: Tx, d: Deployment) => {
    await store.wish(tx, d.id, want)
    await poke(tx, 'deployment', d.id)
    await refreshRoute(tx, d.appId)
  }
  const stop = async (tx: Tx, d: Deployment) => {
    if (d.outcome) return
    await store.wish(tx, d.id, 'stopped')
    await takeDown(tx, d.id)
  }
  const statusFeed = (projectId: string, appName?: string) => ({
    projectId,
    snapshot: async () => ({
      deployments: (appName
        ? await lists.list(deps.db, projectId, appName, 100, 0)
        : await lists.live(deps.db, projectId, 100, 0)
      ).map(deploymentView),
    }),
  })

  return feature(deploymentOperations, {
    listDeployments: {
      read: async ({ project, params, query }) => {
        await app(project.id, params.app_name)
        const { limit, offset } = pageOf(query)
        return (await lists.list(deps.db, project.id, params.app_name, limit, offset)).map(deploymentView)
      },
    },
    listActiveDeployments: {
      read: async ({ project, query }) => {
        const { limit, offset } = pageOf(query)
        return (await lists.activeOnes(deps.db, project.id, limit, offset)).map(d => liveView(d, deps.live))
      },
    },
    getDeployment: { read: async call => statusView(await job(call), deps.live) },

    activateDeployment: {
      write: async call => async tx => {
        const d = await store.lockInApp(tx, call.project.id, call.params.app_name, call.params.deployment_id)
        if (!d) throw notFound()
        assertCan('activate', statusOf(d))
        if (d.outcome) await assertReplicasFit(tx, call.project.id, d.id, Math.max(d.desiredReplicas, 1))
        await activate(tx, d)
        await announceById(tx, d.id)
        call.audit({
          action: 'deployment.activate',
          resourceType: 'deployment',
          resourceId: d.id,
          details: { app: d.appName },
        })
        return deploymentView((await store.byId(tx, d.id)) ?? d)
      },
    },
    stopDeployment: { write: verb('stop', stop) },
    cancelDeployment: { write: verb('cancel', stop) },
    pauseDeployment: { write: verb('pause', wish('paused')) },
    resumeDeployment: { write: verb('resume', wish('running')) },
    deleteDeployment: { write: verb('delete', (tx, d) => removeDeployment(tx, d.id)) },

    streamDeployments: {
      stream: async ({ project, params }, stream) => {
        const { id } = await app(project.id, params.app_name)
        await feed(streams, stream, {
          ...statusFeed(project.id, params.app_name),
          accepts: event => event.appId === id && event.kind === 'deployment.status',
        })
      },
    },
    streamAllDeployments: {
      stream: async ({ project }, stream) =>
        feed(streams, stream, { ...statusFeed(project.id), accepts: event => event.kind === 'deployment.status' }),
    },
    streamWorkspace: {
      stream: async ({ project, caller }, stream) =>
        feed(streams, stream, { ...statusFeed(project.id), accepts: event => isFor(event, caller.userId) }),
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

/** Rolls out, or back: what still runs is switched to at once, what is over is brought up again beside what serves. */
async function activate(tx: Tx, d: Deployment): Promise<void> {
  if (d.outcome && d.image === '') throw invalidState('It was never built, so there is nothing to start. Deploy again.')
  if (d.activeDeploymentId === d.id) return
  if (d.phase === 'draining' && d.vms.some(vm => vm.healthy && vm.want === 'running')) {
    await store.renew(tx, d.id)
    await store.rolledBackTo(tx, d.id)
    await store.makeActive(tx, d.id)
    await poke(tx, 'deployment', d.id)
    if (d.activeDeploymentId) await poke(tx, 'deployment', d.activeDeploymentId)
    await refreshRoute(tx, d.appId)
  } else if (d.outcome && d.phase === null) {
    await store.startAgain(tx, d.id)
    await createMachine(tx, 'deployment', d.id, 'rolling', { deadlineMs: minutes(30) })
    if (d.exclusive && d.activeDeploymentId) await poke(tx, 'deployment', d.activeDeploymentId)
  } else {
    await store.renew(tx, d.id)
    await poke(tx, 'deployment', d.id)
  }
}

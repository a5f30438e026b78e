/** Streams of deployments: status, logs and metrics. */
import type { Deps } from '../base/deps.ts'
import { filterOf, type LogFilter, readLines, sourcesIn } from '../app-logs/index.ts'
import { feed, projectEvents } from '../events/index.ts'
import { projectEventKinds } from '../events/schema.ts'
import type { LiveStats } from '../hosts/index.ts'
import { notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { newest } from '../http/paging.ts'
import { isFor } from '../notifications/index.ts'
import * as lists from './list-store.ts'
import type { LogVm } from './kept-logs.ts'
import { type LogPart, type LogScope, streamLogs } from './logs.ts'
import { streamMetrics } from './metrics.ts'
import type { deploymentOperations } from './schema.ts'
import type { Deployment } from './store.ts'
import * as store from './store.ts'
import { deploymentView } from './view.ts'

export interface JobCall {
  readonly project: { readonly id: string }
  readonly params: { readonly app_name: string; readonly job_id: string }
}

type StreamHandlers = Pick<
  Handlers<typeof deploymentOperations>,
  | 'streamDeployments'
  | 'streamAllDeployments'
  | 'streamWorkspace'
  | 'streamAppLogs'
  | 'streamDeploymentLogs'
  | 'streamAppMetrics'
>

/** Finds the deployment that the request names. @throws ApiError 404 */
export async function jobOf({ db }: Pick<Deps, 'db'>, { project, params }: JobCall): Promise<Deployment> {
  const d = await store.inApp(db, project.id, params.app_name, params.job_id)
  if (!d) throw notFound()
  return d
}

/** Finds the app that the request names. @throws ApiError 404 */
export async function appOf(
  { db }: Pick<Deps, 'db'>,
  projectId: string,
  name: string,
): Promise<{ readonly id: string }> {
  const found = await store.appRef(db, projectId, name)
  if (!found) throw notFound()
  return found
}

export const streamHandlers = (deps: Deps & { readonly live: LiveStats }): StreamHandlers => {
  const streams = { db: deps.db, events: projectEvents(deps.bus) }
  return {
    streamDeployments: {
      stream: async ({ project, params }, stream) => {
        const { id } = await appOf(deps, project.id, params.app_name)
        await feed(streams, stream, {
          ...statusFeed(deps, project.id, params.app_name),
          kinds: ['deployment.status'],
          accepts: event => event.appId === id,
        })
      },
    },
    streamAllDeployments: {
      stream: async ({ project }, stream) =>
        feed(streams, stream, { ...statusFeed(deps, project.id), kinds: ['deployment.status'] }),
    },
    streamWorkspace: {
      stream: async ({ project, caller }, stream) =>
        feed(streams, stream, {
          ...statusFeed(deps, project.id),
          kinds: projectEventKinds,
          accepts: event => isFor(event, caller.userId),
        }),
    },
    streamAppLogs: {
      stream: async ({ project, params, query }, stream) => {
        const { id } = await appOf(deps, project.id, params.app_name)
        const filter = await filterOf(deps, id, query)
        const { deploymentId } = filter
        const live = await store.vmsOfApp(deps.db, id)
        const vms = live.filter(vm => filter.isReplica(vm.id) && (deploymentId ?? vm.deploymentId) === vm.deploymentId)
        const scope = { projectId: project.id, appId: id, ...(deploymentId === null ? {} : { deploymentId }) }
        await streamPart(deps, stream, { scope, vms, filter, query })
      },
    },
    streamDeploymentLogs: {
      stream: async (call, stream) => {
        const d = await jobOf(deps, call)
        const vms = [...(d.build ? [d.build] : []), ...d.vms].map(vm => ({
          id: vm.id,
          hostId: vm.hostId,
          deploymentId: d.id,
        }))
        const scope = { projectId: call.project.id, appId: d.appId, deploymentId: d.id }
        const filter = { ...(await filterOf(deps, d.appId, call.query)), deploymentId: d.id }
        await streamPart(deps, stream, { scope, vms, filter, query: call.query })
      },
    },
    streamAppMetrics: {
      stream: async ({ project, params }, stream) => {
        const { id } = await appOf(deps, project.id, params.app_name)
        await streamMetrics(deps, stream, id)
      },
    },
  }
}

interface LogRequest {
  readonly scope: LogScope
  readonly vms: readonly LogVm[]
  readonly filter: LogFilter
  readonly query: { readonly tail?: number; readonly since?: string }
}

/** Streams the log lines of existing and of removed VMs. */
async function streamPart(
  deps: Deps,
  stream: Parameters<typeof streamLogs>[1],
  { scope, vms, filter, query: { tail, since } }: LogRequest,
): Promise<void> {
  const { sources } = await sourcesIn(deps.db, filter, { ...filter, order: 'newest' })
  const [only] = sources
  const most = tail ?? (since === undefined ? 100 : 10_000)
  // The log lines of a single VM are forwarded in the encoding in which its host sends them.
  if (filter.isPlain && only && sources.length === 1)
    return streamLogs(deps, stream, scope, [{ ...only, id: only.vmId }], most)
  const part: LogPart = {
    accepts: (vmId, line) =>
      line.atUs > filter.afterUs &&
      filter.isReplica(vmId) &&
      filter.streams.includes(line.stream) &&
      line.line.toLowerCase().includes(filter.text),
    history: async (limit, afterUs) => {
      if (limit === 0) return []
      const span = { ...filter, afterUs: Math.max(afterUs, filter.afterUs) }
      const { lines } = await readLines(deps, span, { order: 'newest', limit }, stream.signal)
      return lines.map(({ vmId, deploymentId, ...line }) => ({ vmId, deploymentId, line })).reverse()
    },
  }
  return streamLogs(deps, stream, { ...scope, part }, vms, most)
}

const statusFeed = ({ db }: Pick<Deps, 'db'>, projectId: string, appName?: string) => ({
  projectId,
  snapshot: async () => ({
    deployments: (appName
      ? await lists.list(db, projectId, appName, newest(100))
      : await lists.live(db, projectId, newest(100))
    ).map(deploymentView),
  }),
})

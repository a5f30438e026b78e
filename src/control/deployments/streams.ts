/** Events of the deployment streams: statuses, logs and live metrics. */
import { EventGap, projectEventTable } from '../events/schema.ts'
import type { EventTable } from '../http/operation.ts'
import { dateTime, int64, list, resource, uuid } from '../http/types.ts'
import { LogLine } from '../app-logs/index.ts'
import { Deployment, LiveDeployment } from './resources.ts'

const at = (description: string) => dateTime({ description })

export const DeploymentsSnapshot = resource(
  'DeploymentsSnapshot',
  {
    at: at('When the snapshot was read.'),
    deployments: list(Deployment, { description: 'The newest deployments, at most 100.' }),
  },
  { description: 'First event of the stream: the current deployments. Later events report changes.' },
)

/** Events of the deployments of one app. Its snapshot includes deployments that have ended. */
export const deploymentEvents = {
  snapshot: DeploymentsSnapshot,
  'deployment.status': projectEventTable['deployment.status'],
  gap: EventGap,
} as const satisfies EventTable

export const workspaceEvents = {
  snapshot: DeploymentsSnapshot,
  ...projectEventTable,
  gap: EventGap,
} as const satisfies EventTable

const vmId = { vm_id: uuid({ description: 'Id of the VM that wrote the lines.' }) }

const LogSnapshot = resource(
  'LogSnapshot',
  {
    at: at('When the stream was opened.'),
    vms: list(uuid(), { description: 'Ids of the VMs and builds whose lines the stream sends.' }),
  },
  { description: 'First event of the stream. Stored log lines follow, oldest first.' },
)

const LogGap = resource(
  'LogGap',
  {
    ...vmId,
    dropped_lines: int64({ description: 'Number of missing lines.', examples: [120] }),
    at: at('When the gap was noticed.'),
  },
  { description: 'Log lines are missing here, because a VM wrote faster than they could be processed.' },
)

export const logEvents = { snapshot: LogSnapshot, log: LogLine, gap: LogGap } as const satisfies EventTable

const MetricsSnapshot = resource(
  'MetricsSnapshot',
  {
    at: at('When the metrics were read.'),
    deployments: list(LiveDeployment, { description: 'All live deployments with their metrics.' }),
  },
  { description: 'First event of the stream: the current metrics.' },
)

const MetricsEvent = resource(
  'MetricsEvent',
  { at: at('When the metrics were read.'), ...LiveDeployment.properties },
  { description: 'Metrics of one deployment, sent once a second.' },
)

export const metricsEvents = { snapshot: MetricsSnapshot, metrics: MetricsEvent } as const satisfies EventTable

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
  { description: 'Initial state of the stream; later events change it.' },
)

/** Events of one app; its snapshot includes deployments that ended. */
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

const vmId = { vm_id: uuid({ description: 'The VM that wrote the line.' }) }

const LogSnapshot = resource(
  'LogSnapshot',
  {
    at: at('When the stream began.'),
    vms: list(uuid(), { description: 'The VMs whose lines the stream sends, including builds.' }),
  },
  { description: 'Initial event of the stream; history lines follow, oldest first.' },
)

const LogGap = resource(
  'LogGap',
  {
    ...vmId,
    dropped_lines: int64({ description: 'Number of missing lines.', examples: [120] }),
    at: at('When the gap was noticed.'),
  },
  { description: 'A VM wrote faster than its lines could be processed: some are missing here.' },
)

export const logEvents = { snapshot: LogSnapshot, log: LogLine, gap: LogGap } as const satisfies EventTable

const MetricsSnapshot = resource(
  'MetricsSnapshot',
  {
    at: at('When the numbers were read.'),
    deployments: list(LiveDeployment, { description: 'All live deployments.' }),
  },
  { description: 'Initial state of the stream.' },
)

const MetricsEvent = resource(
  'MetricsEvent',
  { at: at('When the numbers were read.'), ...LiveDeployment.properties },
  { description: 'The live numbers of one deployment, once a second.' },
)

export const metricsEvents = { snapshot: MetricsSnapshot, metrics: MetricsEvent } as const satisfies EventTable

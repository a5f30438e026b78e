import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { dateTime, double, int64, list, nullable, oneOf, resource, text } from '../http/types.ts'
import { ranges } from './rules.ts'

const range = (options: Readonly<Record<string, unknown>> = {}) =>
  oneOf(ranges, { description: 'Length of the time up to now.', ...options })
const count = (description: string, example = 12) => int64({ description, examples: [example] })
const rate = (description: string, example: number) => double({ description, examples: [example] })
const latency = (share: string) =>
  nullable(
    double({
      description: `Milliseconds until the first byte of the answer that ${share} of the requests did not exceed; null without answers.`,
      examples: [42.5],
    }),
  )

const amounts = {
  requests: count('Requests that ended, including those without an answer.', 1240),
  status_1xx: count('Connections that switched protocols, such as WebSockets.', 3),
  status_2xx: count('Answers with a status from 200 to 299.', 1200),
  status_3xx: count('Answers with a status from 300 to 399.'),
  status_4xx: count('Answers with a status from 400 to 499.', 20),
  status_5xx: count('Answers with a status from 500 to 599.', 3),
  aborted: count('Requests whose client disconnected before an answer.', 2),
  gateway_errors: count(
    'Of the answers with 4xx and 5xx, those that the gateway gave itself: limits exceeded, no healthy VM, no answer from the app.',
    1,
  ),
  bytes_in: count('Size of the bodies of the requests.', 48_000),
  bytes_out: count('Size of the bodies of the answers.', 9_600_000),
  latency_p50_ms: latency('half'),
  latency_p95_ms: latency('95 %'),
  latency_p99_ms: latency('99 %'),
  cpu_usage: nullable(
    rate('Mean CPU usage of the VMs in percent of their vCPUs, 0 to 100; null while none ran.', 12.5),
  ),
  cpu_peak: nullable(rate('Highest sample of the CPU usage.', 61)),
  ram_used_bytes: nullable(count('Mean memory that the VMs used together.', 134_217_728)),
  ram_peak_bytes: nullable(count('Highest sample of the used memory.', 150_994_944)),
  memory_bytes: nullable(count('Mean memory that the VMs had together.', 536_870_912)),
  replicas: nullable(rate('Mean number of running VMs.', 2)),
  rx_bytes: count('Bytes that the VMs received.', 1_048_576),
  tx_bytes: count('Bytes that the VMs sent.', 5_242_880),
}

const HistoryPoint = resource(
  'HistoryPoint',
  {
    at: dateTime({ description: 'Start of the period.' }),
    seconds: rate('Length of the period; the last one may be shorter than the others.', 60),
    ...amounts,
  },
  { description: 'Requests and resource usage of an app in one period.' },
)
export type HistoryPoint = Static<typeof HistoryPoint>

const HistoryTotals = resource('HistoryTotals', amounts, {
  description: 'Requests and resource usage of an app in a whole range.',
})
export type HistoryTotals = Static<typeof HistoryTotals>

export const AppHistory = resource(
  'AppHistory',
  {
    range: range(),
    from: dateTime({ description: 'Start of the first period.' }),
    to: dateTime({ description: 'End of the last period, up to 45 seconds ago: everything before it was counted.' }),
    totals: HistoryTotals,
    points: list(HistoryPoint, { description: 'All periods, oldest first, including those without requests.' }),
  },
  { description: 'Requests and resource usage of an app over time.' },
)
export type AppHistory = Static<typeof AppHistory>

export const historyOperations = operations({
  getAppHistory: {
    tag: 'Apps',
    auth: 'bearer',
    project: 'selected',
    scope: 'read',
    addition: true,
    method: 'GET',
    path: '/v1/apps/{app_name}/history',
    summary: 'Get the traffic and metrics of an app over time',
    description:
      'Returns request rates, statuses, latencies and resource usage in periods of 1 minute (`1h`), 5 minutes (`6h`), 10 minutes (`24h`), 1 hour (`7d`) or 4 hours (`30d`). Requests are counted by the gateways when they end; requests that another proxy sends directly to the VMs are not included.',
    params: Type.Object({ app_name: text({ description: 'Name of the app.', examples: ['web'] }) }),
    query: Type.Object({ range: Type.Optional(range({ default: '1h' })) }),
    answer: AppHistory,
  },
})

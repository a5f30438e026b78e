import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { dateTime, double, int64, list, nullable, oneOf, resource, text } from '../http/types.ts'
import { ranges } from './rules.ts'

const range = (options: Readonly<Record<string, unknown>> = {}) =>
  oneOf(ranges, { description: 'Length of the period that ends now.', ...options })
const count = (description: string, example = 12) => int64({ description, examples: [example] })
const rate = (description: string, example: number) => double({ description, examples: [example] })
const latency = (share: string) =>
  nullable(
    double({
      description: `Time to the first byte of the response in milliseconds, which ${share} of the requests did not exceed; null without responses.`,
      examples: [42.5],
    }),
  )

const amounts = {
  requests: count('Number of requests that ended, including those without a response.', 1240),
  status_1xx: count('Number of connections that switched to another protocol, such as WebSockets.', 3),
  status_2xx: count('Number of responses with a status from 200 to 299.', 1200),
  status_3xx: count('Number of responses with a status from 300 to 399.'),
  status_4xx: count('Number of responses with a status from 400 to 499.', 20),
  status_5xx: count('Number of responses with a status from 500 to 599.', 3),
  aborted: count('Number of requests whose client disconnected before the response began.', 2),
  gateway_errors: count(
    'Number of the 4xx and 5xx responses that came from the gateway and not from the app: a limit was exceeded, no VM was healthy, or the app did not respond.',
    1,
  ),
  bytes_in: count('Total size of the request bodies in bytes.', 48_000),
  bytes_out: count('Total size of the response bodies in bytes.', 9_600_000),
  latency_p50_ms: latency('half'),
  latency_p95_ms: latency('95 %'),
  latency_p99_ms: latency('99 %'),
  cpu_usage: nullable(rate('Mean CPU usage of the VMs in percent of their vCPUs, 0 to 100; null if no VM ran.', 12.5)),
  cpu_peak: nullable(rate('Highest measured CPU usage in percent; null if no VM ran.', 61)),
  ram_used_bytes: nullable(count('Mean memory that all VMs used together, in bytes; null if no VM ran.', 134_217_728)),
  ram_peak_bytes: nullable(
    count('Highest measured memory use of all VMs together, in bytes; null if no VM ran.', 150_994_944),
  ),
  memory_bytes: nullable(count('Mean memory size of all VMs together, in bytes; null if no VM ran.', 536_870_912)),
  replicas: nullable(rate('Mean number of running VMs; null if it was not measured.', 2)),
  rx_bytes: count('Bytes that the VMs received over the network.', 1_048_576),
  tx_bytes: count('Bytes that the VMs sent over the network.', 5_242_880),
}

const HistoryPoint = resource(
  'HistoryPoint',
  {
    at: dateTime({ description: 'Start of the period.' }),
    seconds: rate('Length of the period in seconds; the last period may be shorter than the others.', 60),
    ...amounts,
  },
  { description: 'Requests and resource usage of an app in one period.' },
)
export type HistoryPoint = Static<typeof HistoryPoint>

const HistoryTotals = resource('HistoryTotals', amounts, {
  description: 'Requests and resource usage of an app in the whole range.',
})
export type HistoryTotals = Static<typeof HistoryTotals>

export const AppHistory = resource(
  'AppHistory',
  {
    range: range(),
    from: dateTime({ description: 'Start of the first period.' }),
    to: dateTime({
      description:
        'End of the last period. It is up to 45 seconds ago, so that all earlier requests have been counted.',
    }),
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
      'Returns the number of requests, statuses, latencies and resource usage of an app, in periods of 1 minute (`1h`), 5 minutes (`6h`), 10 minutes (`24h`), 1 hour (`7d`) or 4 hours (`30d`). Gateways count a request when it ends; requests that another proxy sends directly to the VMs are not included.',
    params: Type.Object({ app_name: text({ description: 'Name of the app.', examples: ['web'] }) }),
    query: Type.Object({ range: Type.Optional(range({ default: '1h' })) }),
    answer: AppHistory,
  },
})

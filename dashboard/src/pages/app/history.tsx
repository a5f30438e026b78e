/** Traffic and metrics of an app over time. */
import type { AppHistory } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { queries } from '../../api/queries.ts'
import type { Series } from '../../ui/chart.tsx'
import { bytes, duration, percent } from '../../ui/format.ts'
import { Fact, Facts } from '../../ui/layout.tsx'
import { Loaded, Skeleton } from '../../ui/states.tsx'
import { Chart, Numbers, rate } from './charts.tsx'

export type Range = AppHistory['range']
export const ranges: readonly Range[] = ['1h', '6h', '24h', '7d', '30d']

type Point = AppHistory['points'][number]

export const perSecond = (value: number) => `${Number(value.toFixed(value < 10 ? 2 : 0))}/s`
const latency = (ms: number | null) => (ms === null ? '–' : duration(ms))
/** Percentage of requests that failed in the app or on the way to it (5xx), not because of the client. */
export const errorShare = ({ requests, status_5xx }: AppHistory['totals']) =>
  requests === 0 ? 0 : (status_5xx / requests) * 100

export function HistoryView({ name, range }: { readonly name: string; readonly range: Range }) {
  const history = useQuery(queries.history(name, range))
  return (
    <Loaded query={history} skeleton={<Skeleton className="h-64" />}>
      {found => (
        <div className="space-y-4">
          <TrafficFacts totals={found.totals} />
          <HistoryCharts history={found} />
        </div>
      )}
    </Loaded>
  )
}

export function TrafficFacts({ totals }: { readonly totals: AppHistory['totals'] }) {
  return (
    <Facts>
      <Fact name="Requests">{totals.requests.toLocaleString('en')}</Fact>
      <Fact name="Server errors (5xx)">
        {totals.status_5xx.toLocaleString('en')} ({percent(errorShare(totals))})
      </Fact>
      <Fact name="Client errors (4xx)">{totals.status_4xx.toLocaleString('en')}</Fact>
      <Fact name="Errors by the gateway">{totals.gateway_errors.toLocaleString('en')}</Fact>
      <Fact name="Latency p50 · p95 · p99" wide>
        {[totals.latency_p50_ms, totals.latency_p95_ms, totals.latency_p99_ms].map(latency).join(' · ')}
      </Fact>
      <Fact name="Bodies received · sent" wide>
        {bytes(totals.bytes_in)} · {bytes(totals.bytes_out)}
      </Fact>
    </Facts>
  )
}

export function HistoryCharts({ history }: { readonly history: AppHistory }) {
  const { points, totals } = history
  const times = points.map(point => Date.parse(point.at) / 1000)
  const spanSeconds = (times.at(-1) ?? 0) - (times[0] ?? 0)
  const line = (name: string, color: string, value: (point: Point) => number | null): Series => ({
    name,
    color,
    values: points.map(value),
  })
  const chart = { times, spanSeconds, heightPx: 150 }
  const memory = Math.max(1, ...points.map(point => point.memory_bytes ?? 0))
  return (
    <div className="grid gap-4 lg:grid-cols-2">
      <Numbers title="Requests" now={`${totals.requests.toLocaleString('en')} in total`}>
        <Chart
          {...chart}
          label="Requests per second: 2xx and 3xx in green, 4xx in amber, 5xx in red"
          series={[
            line('2xx, 3xx', '--good', one => (one.status_2xx + one.status_3xx) / one.seconds),
            line('4xx', '--warn', one => one.status_4xx / one.seconds),
            line('5xx', '--bad', one => one.status_5xx / one.seconds),
          ]}
          format={perSecond}
          atLeast={0.1}
        />
      </Numbers>
      <Numbers title="Latency" now="p50, p95, p99">
        <Chart
          {...chart}
          label={`Latency, median ${latency(totals.latency_p50_ms)}`}
          series={[
            line('p50', '--accent', one => one.latency_p50_ms),
            line('p95', '--warn', one => one.latency_p95_ms),
            line('p99', '--bad', one => one.latency_p99_ms),
          ]}
          format={duration}
          atLeast={10}
        />
      </Numbers>
      <Numbers title="CPU" now={totals.cpu_usage === null ? 'not running' : `mean ${percent(totals.cpu_usage)}`}>
        <Chart
          {...chart}
          label="CPU usage"
          series={[line('CPU', '--accent', one => one.cpu_usage)]}
          format={percent}
          atLeast={10}
        />
      </Numbers>
      <Numbers
        title="Memory"
        now={totals.ram_used_bytes === null ? 'not running' : `mean ${bytes(totals.ram_used_bytes)}`}
      >
        <Chart
          {...chart}
          label="Used memory"
          series={[line('Memory', '--good', one => one.ram_used_bytes)]}
          format={bytes}
          atLeast={memory}
        />
      </Numbers>
      <Numbers
        title="Network"
        now={`${bytes(totals.rx_bytes)} in · ${bytes(totals.tx_bytes)} out`}
        className="lg:col-span-2"
      >
        <Chart
          {...chart}
          label="Network traffic of the VMs"
          series={[
            line('In', '--info', one => one.rx_bytes / one.seconds),
            line('Out', '--warn', one => one.tx_bytes / one.seconds),
          ]}
          format={rate}
          atLeast={1024}
        />
      </Numbers>
    </div>
  )
}

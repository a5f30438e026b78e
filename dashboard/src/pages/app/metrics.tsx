import { Activity } from 'lucide-react'
import { lazy, type ReactNode, Suspense, useState } from 'react'
import { Button } from '../../ui/button.tsx'
import type { Series } from '../../ui/chart.tsx'
import { bytes, percent } from '../../ui/format.ts'
import { Card } from '../../ui/layout.tsx'
import { LiveDot } from '../../ui/live-dot.tsx'
import { Empty, Skeleton } from '../../ui/states.tsx'
import { HistoryView, type Range, ranges } from './history.tsx'
import type { Point } from './samples.ts'
import { useApp } from './use-app.ts'
import { useMetrics } from './use-metrics.ts'

/** Loaded lazily: 22 KB that no page needs before the first samples arrive. */
export const Chart = lazy(async () => ({ default: (await import('../../ui/chart.tsx')).Chart }))

export const rate = (value: number) => `${bytes(value)}/s`

export function Metrics() {
  const app = useApp()
  const [range, setRange] = useState<Range | 'live'>('1h')
  return (
    <div className="space-y-4">
      <div role="group" aria-label="Time range" className="flex flex-wrap gap-1">
        {(['live', ...ranges] as const).map(one => (
          <Button
            key={one}
            size="small"
            look={one === range ? 'primary' : 'quiet'}
            aria-pressed={one === range}
            onClick={() => setRange(one)}
          >
            {one === 'live' ? 'Live' : one}
          </Button>
        ))}
      </div>
      {range === 'live' ? <LiveMetrics name={app.name} /> : <HistoryView name={app.name} range={range} />}
    </div>
  )
}

function LiveMetrics({ name }: { readonly name: string }) {
  const { points, state } = useMetrics(name)
  if (points.length === 0 && state === 'open')
    return (
      <Card>
        <Empty icon={Activity} title="Nothing is running">
          Live CPU, memory and network metrics of the running deployment appear here.
        </Empty>
      </Card>
    )
  return (
    <div className="space-y-4">
      <div className="flex items-center justify-between text-muted">
        <p>The last five minutes, one sample per second.</p>
        <LiveDot state={state} />
      </div>
      {points.length === 0 ? <Skeleton className="h-64" /> : <Charts points={points} />}
    </div>
  )
}

export function Charts({ points, heightPx = 170 }: { readonly points: readonly Point[]; readonly heightPx?: number }) {
  const times = points.map(point => point.at)
  const now = points.at(-1)
  if (!now) return null
  const cpu: readonly Series[] = [{ name: 'CPU', color: '--accent', values: points.map(point => point.cpuPercent) }]
  const memory: readonly Series[] = [{ name: 'Memory', color: '--good', values: points.map(point => point.ramBytes) }]
  const network: readonly Series[] = [
    { name: 'In', color: '--info', values: points.map(point => point.rxRate) },
    { name: 'Out', color: '--warn', values: points.map(point => point.txRate) },
  ]
  const traffic = `${rate(now.rxRate ?? 0)} in · ${rate(now.txRate ?? 0)} out`
  const chart = { times, heightPx }
  return (
    <div className="grid gap-4 lg:grid-cols-2">
      <Numbers title="CPU" now={percent(now.cpuPercent)}>
        <Chart {...chart} label={`CPU, now ${percent(now.cpuPercent)}`} series={cpu} format={percent} atLeast={10} />
      </Numbers>
      <Numbers title="Memory" now={`${bytes(now.ramBytes)} of ${bytes(now.memoryBytes)}`}>
        <Chart
          {...chart}
          label={`Memory, now ${bytes(now.ramBytes)} of ${bytes(now.memoryBytes)}`}
          series={memory}
          format={bytes}
          atLeast={now.memoryBytes}
        />
      </Numbers>
      <Numbers title="Network" now={traffic} className="lg:col-span-2">
        <Chart {...chart} label={`Network, now ${traffic}`} series={network} format={rate} atLeast={1024} />
      </Numbers>
    </div>
  )
}

export function Numbers({
  title,
  now,
  children,
  className,
}: {
  readonly title: string
  readonly now: string
  readonly children: ReactNode
  readonly className?: string
}) {
  return (
    <Card
      title={title}
      actions={<span className="font-medium text-muted tabular-nums">{now}</span>}
      {...(className ? { className } : {})}
    >
      <Suspense fallback={<Skeleton className="h-30" />}>{children}</Suspense>
    </Card>
  )
}

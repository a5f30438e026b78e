/** Charts of an app: live metrics, and the layout that charts of live and stored metrics share. */
import { lazy, type ReactNode, Suspense } from 'react'
import type { Series } from '../../ui/chart.tsx'
import { bytes, percent } from '../../ui/format.ts'
import { Card } from '../../ui/layout.tsx'
import { Skeleton } from '../../ui/states.tsx'
import type { Point } from './samples.ts'

/** The chart component (22 KB), which is loaded only when the first metrics arrive. */
export const Chart = lazy(async () => ({ default: (await import('../../ui/chart.tsx')).Chart }))

export const rate = (value: number) => `${bytes(value)}/s`

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

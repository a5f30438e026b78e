import { Activity } from 'lucide-react'
import { useState } from 'react'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/layout.tsx'
import { LiveDot } from '../../ui/live-dot.tsx'
import { Empty, Skeleton } from '../../ui/states.tsx'
import { Charts } from './charts.tsx'
import { HistoryView, type Range, ranges } from './history.tsx'
import { useApp } from './use-app.ts'
import { useMetrics } from './use-metrics.ts'

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

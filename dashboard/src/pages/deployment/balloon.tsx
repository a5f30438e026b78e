import type { Balloon as Sizes, LiveDeploymentStatus } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { ActionButton } from '../../ui/action.tsx'
import { mib } from '../../ui/format.ts'
import { Card } from '../../ui/layout.tsx'
import { messageOf, Skeleton } from '../../ui/states.tsx'
import { Slider } from '../../ui/slider.tsx'
import { whyNotRunning } from './machine.ts'

interface Props {
  readonly app_name: string
  readonly live: LiveDeploymentStatus
}

/** A slider for the memory target of a running VM (balloon). */
export function Balloon({ app_name, live }: Props) {
  const reason = whyNotRunning(live.status)
  const balloon = useQuery({
    ...queries.balloon(app_name, live.job_id),
    enabled: reason === undefined,
    refetchInterval: 5000,
  })
  return (
    <Card title="Memory" lead="Return unused memory to the host while the VM runs.">
      {reason !== undefined && <p className="text-muted">{reason}</p>}
      {reason === undefined && balloon.error && <p className="text-muted">{messageOf(balloon.error)}</p>}
      {reason === undefined && balloon.isPending && <Skeleton className="h-16" />}
      {reason === undefined && balloon.data && (
        <Control key={balloon.data.target_memory_mib} app_name={app_name} job_id={live.job_id} sizes={balloon.data} />
      )}
    </Card>
  )
}

function Control({
  app_name,
  job_id,
  sizes,
}: {
  readonly app_name: string
  readonly job_id: string
  readonly sizes: Sizes
}) {
  const [target, setTarget] = useState(sizes.target_memory_mib)
  const isChanged = target !== sizes.target_memory_mib
  return (
    <div className="space-y-3">
      <div className="flex items-baseline justify-between">
        <span className="text-lg font-semibold tabular-nums">{mib(target)}</span>
        <span className="text-xs text-muted tabular-nums">currently {mib(sizes.actual_memory_mib)}</span>
      </div>
      <Slider
        label="Memory target"
        value={target}
        min={sizes.floor_mib}
        max={sizes.memory_mib}
        step={32}
        text={mib(target)}
        onChange={setTarget}
      />
      <div className="flex items-center justify-between text-xs text-muted tabular-nums">
        <span>{mib(sizes.floor_mib)}</span>
        <span>{mib(sizes.memory_mib)}</span>
      </div>
      <ActionButton
        className="w-full"
        reason={isChanged ? undefined : 'Move the slider first.'}
        done="Changing memory"
        act={async () => {
          await api.setBalloon({ app_name, job_id, body: { target_memory_mib: target } })
          await refreshAll('balloon')
        }}
      >
        Apply
      </ActionButton>
    </div>
  )
}

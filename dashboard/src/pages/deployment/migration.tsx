import type { LiveDeploymentStatus, MigrationStatus } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { ArrowRightLeft } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { ActionButton } from '../../ui/action.tsx'
import { Button } from '../../ui/button.tsx'
import { FormDialog } from '../../ui/dialog.tsx'
import { Choice, Field } from '../../ui/form.tsx'
import { duration } from '../../ui/format.ts'
import { Card } from '../../ui/layout.tsx'
import { Meter } from '../../ui/meter.tsx'
import { Notice } from '../../ui/states.tsx'
import { Status } from '../../ui/status.tsx'
import { whyNotRunning } from './machine.ts'

interface Props {
  readonly app_name: string
  readonly live: LiveDeploymentStatus
}

const over = ['none', 'completed', 'cancelled', 'failed']

export function Migration({ app_name, live }: Props) {
  const { job_id } = live
  const migration = useQuery({
    ...queries.migration(app_name, job_id),
    refetchInterval: ({ state }) => (state.data && !over.includes(state.data.status) ? 700 : 10_000),
  })
  const current = migration.data
  const isRunning = current !== undefined && !over.includes(current.status)
  return (
    <Card title="Migration" lead="Moves the running VM to another host.">
      <div className="space-y-3">
        {current && current.status !== 'none' && <Last migration={current} />}
        {isRunning ? (
          <ActionButton
            className="w-full"
            act={async () => {
              await api.cancelMigration({ app_name, job_id })
              await refreshAll('migration')
            }}
          >
            Cancel the move
          </ActionButton>
        ) : (
          <Start app_name={app_name} live={live} />
        )}
      </div>
    </Card>
  )
}

function Last({ migration }: { readonly migration: MigrationStatus }) {
  const { percent = 0 } = migration
  return (
    <div className="space-y-2">
      <div className="flex items-center justify-between">
        <Status status={migration.status} />
        <span className="text-xs text-muted">{migration.method}</span>
      </div>
      {!over.includes(migration.status) && (
        <Meter label="Copied" value={percent} max={100} text={`${Math.round(percent)} %`} />
      )}
      {migration.status === 'completed' && (
        <p className="text-xs text-muted">It stood still for {duration(migration.downtime_ms ?? 0)}.</p>
      )}
      {migration.error && <Notice tone="bad">{migration.error}</Notice>}
    </div>
  )
}

function Start({ app_name, live }: Props) {
  const me = useQuery(queries.me())
  const isAdmin = me.data?.role === 'Admin'
  const hosts = useQuery({ ...queries.hosts(), enabled: isAdmin })
  const others = hosts.data?.filter(host => host.id !== live.host_id && host.status === 'up' && !host.cordoned) ?? []
  const reason =
    whyNotRunning(live.status) ?? (hosts.data && others.length === 0 ? 'No other host accepts VMs.' : undefined)
  return (
    <FormDialog
      title="Move to another host"
      lead="The VM keeps running while its memory is copied, and pauses briefly at the end."
      submit="Move"
      trigger={open => (
        <Button className="w-full" reason={reason} onClick={open}>
          <ArrowRightLeft aria-hidden="true" size={14} /> Move …
        </Button>
      )}
      send={async values => {
        await api.startMigration({
          app_name,
          job_id: live.job_id,
          body: { target_host: values.text('target_host'), target_uri: '' },
        })
        await refreshAll('migration', 'deployment')
      }}
      fields={
        isAdmin ? (
          <Choice label="Host" name="target_host" required>
            {others.map(host => (
              <option key={host.id} value={host.id}>
                {host.name} ({host.vms} VMs)
              </option>
            ))}
          </Choice>
        ) : (
          <Field label="Host" name="target_host" required mono hint="Name or id of a host. Ask your operator for it." />
        )
      }
    />
  )
}

import type { LiveDeploymentStatus } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Camera, Copy, RotateCcw, Trash2 } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import type { VmSnapshot } from '../../api/shapes.ts'
import { Button } from '../../ui/button.tsx'
import { Destroy, FormDialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/form.tsx'
import { bytes, duration } from '../../ui/format.ts'
import { Card } from '../../ui/layout.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { Status } from '../../ui/status.tsx'
import { Table } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'
import { Ago } from '../../ui/time.tsx'
import { whyNoMachine } from './machine.ts'

interface Props {
  readonly app_name: string
  readonly live: LiveDeploymentStatus
}

export function Snapshots({ app_name, live }: Props) {
  const { job_id } = live
  const snapshots = useQuery({
    ...queries.vmSnapshots(app_name, job_id),
    refetchInterval: ({ state }) => (state.data?.some(one => one.status === 'creating') ? 1000 : 30_000),
  })
  return (
    <Card
      flush
      title="Snapshots"
      lead="Memory and disk as they are at one moment, to go back to or to start copies from."
      actions={<Take app_name={app_name} live={live} />}
    >
      <Loaded query={snapshots}>
        {all =>
          all.length === 0 ? (
            <Empty icon={Camera} title="No snapshots">
              A snapshot stops the machine for some milliseconds and keeps everything, with programs running.
            </Empty>
          ) : (
            <Table
              label="Snapshots"
              rows={all}
              keyOf={one => one.name}
              columns={[
                { title: 'Name', cell: one => <span className="font-medium">{one.name}</span> },
                {
                  title: 'Status',
                  cell: one => (
                    <span title={one.error}>
                      <Status status={one.status} />
                    </span>
                  ),
                },
                { title: 'Size', wideOnly: true, cell: one => bytes(one.sizeBytes) },
                { title: 'Paused for', wideOnly: true, cell: one => duration(one.pauseMs) },
                {
                  title: 'When',
                  wideOnly: true,
                  cell: one => (
                    <span className="text-muted">
                      <Ago at={one.createdAt} />
                    </span>
                  ),
                },
                {
                  title: '_Actions',
                  right: true,
                  cell: one => <Actions app_name={app_name} live={live} snapshot={one} />,
                },
              ]}
            />
          )
        }
      </Loaded>
    </Card>
  )
}

function Take({ app_name, live }: Props) {
  return (
    <FormDialog
      title="Take a snapshot"
      submit="Take snapshot"
      trigger={open => (
        <Button size="small" onClick={open} reason={whyNoMachine(live.status)}>
          <Camera aria-hidden="true" size={13} /> Take snapshot
        </Button>
      )}
      send={async values => {
        await api.createVmSnapshot({
          app_name,
          job_id: live.job_id,
          body: { snapshot_name: values.text('snapshot_name') },
        })
        await refreshAll('vm-snapshots')
      }}
      fields={
        <Field label="Name" name="snapshot_name" required mono autoFocus maxLength={63} placeholder="before-upgrade" />
      }
    />
  )
}

function Actions({ app_name, live, snapshot }: Props & { readonly snapshot: VmSnapshot }) {
  const navigate = useNavigate()
  const { name } = snapshot
  const target = { app_name, job_id: live.job_id, snapshot_name: name }
  const notReady = snapshot.status === 'ready' ? undefined : `The snapshot is ${snapshot.status}.`
  return (
    <span className="inline-flex gap-1">
      <Destroy
        name={name}
        verb="Restore"
        what="snapshot"
        consequence="The machine goes back to where it was then. What has happened in it since is lost."
        send={async () => {
          await api.restoreVmSnapshot(target)
          await refreshAll('deployment')
          toast({ tone: 'info', title: `Going back to ${name}` })
        }}
        trigger={open => (
          <Button
            look="quiet"
            size="smallIcon"
            aria-label={`Restore ${name}`}
            reason={notReady ?? whyNoMachine(live.status)}
            onClick={open}
          >
            <RotateCcw aria-hidden="true" size={14} />
          </Button>
        )}
      />
      <FormDialog
        title={`Fork ${name}`}
        lead="Starts copies as a new app. Each has an identity of its own."
        submit="Fork"
        trigger={open => (
          <Button look="quiet" size="smallIcon" aria-label={`Fork ${name}`} reason={notReady} onClick={open}>
            <Copy aria-hidden="true" size={14} />
          </Button>
        )}
        send={async values => {
          const app = values.text('app_name')
          await api.forkVmSnapshot({ ...target, body: { app_name: app, replicas: values.number('replicas') } })
          await refreshAll('apps', 'active')
          await navigate({ to: '/apps/$app', params: { app } })
        }}
        fields={
          <>
            <Field label="Name of the new app" name="app_name" required mono autoFocus maxLength={40} />
            <Field label="Replicas" name="replicas" type="number" min={1} max={20} defaultValue={1} required />
          </>
        }
      />
      <Destroy
        name={name}
        what="snapshot"
        consequence="It cannot be brought back. What was started from it goes on."
        send={async () => {
          await api.deleteVmSnapshot(target)
          await refreshAll('vm-snapshots')
        }}
        trigger={open => (
          <Button look="quiet" size="smallIcon" aria-label={`Delete ${name}`} onClick={open}>
            <Trash2 aria-hidden="true" size={14} />
          </Button>
        )}
      />
    </span>
  )
}

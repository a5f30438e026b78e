import type { LiveDeploymentStatus, VmSnapshot } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Camera, Copy, RotateCcw } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll, whileCreating } from '../../api/queries.ts'
import { FormDialog } from '../../ui/dialog.tsx'
import { NameField, NumberField } from '../../ui/form.tsx'
import { bytes, duration } from '../../ui/format.ts'
import { ListCard } from '../../ui/listing.tsx'
import { AddButton, DestroyIcon, IconButton } from '../../ui/row-actions.tsx'
import { Status } from '../../ui/status.tsx'
import { toast } from '../../ui/toast.tsx'
import { whyNoMachine } from './machine.ts'

interface Props {
  readonly app_name: string
  readonly live: LiveDeploymentStatus
}

export function Snapshots({ app_name, live }: Props) {
  const { job_id } = live
  const snapshots = useQuery({ ...queries.vmSnapshots(app_name, job_id), refetchInterval: whileCreating })
  return (
    <ListCard
      title="Snapshots"
      lead="Memory and disk at one point in time, to restore or to start copies from."
      actions={<Take app_name={app_name} live={live} />}
      query={snapshots}
      nothing={{
        icon: Camera,
        title: 'No snapshots',
        text: 'A snapshot pauses the VM for some milliseconds and saves its full state, including running programs.',
      }}
      label="Snapshots"
      keyOf={one => one.name}
      columns={[
        { title: 'Name', cell: one => <span className="font-medium">{one.name}</span> },
        {
          title: 'Status',
          cell: one => (
            <span title={one.error ?? undefined}>
              <Status status={one.status} />
            </span>
          ),
        },
        { title: 'Size', wideOnly: true, cell: one => bytes(one.size_bytes) },
        { title: 'Paused for', wideOnly: true, cell: one => duration(one.pause_ms ?? 0) },
        { title: 'When', at: one => one.created_at },
      ]}
      actionsOf={one => <Actions app_name={app_name} live={live} snapshot={one} />}
    />
  )
}

function Take({ app_name, live }: Props) {
  return (
    <FormDialog
      title="Take a snapshot"
      submit="Take snapshot"
      trigger={open => (
        <AddButton text="Take snapshot" icon={Camera} reason={whyNoMachine(live.status)} onClick={open} />
      )}
      send={async values => {
        await api.createVmSnapshot({
          app_name,
          job_id: live.job_id,
          body: { snapshot_name: values.text('snapshot_name') },
        })
        await refreshAll('vm-snapshots')
      }}
      fields={<NameField name="snapshot_name" maxLength={63} placeholder="before-upgrade" />}
    />
  )
}

function Actions({ app_name, live, snapshot }: Props & { readonly snapshot: VmSnapshot }) {
  const navigate = useNavigate()
  const { name } = snapshot
  const target = { app_name, job_id: live.job_id, snapshot_name: name }
  // Only one replica can use a volume with write access.
  const writes = snapshot.volumes.some(volume => !volume.read_only)
  const notReady = snapshot.status === 'ready' ? undefined : `The snapshot is ${snapshot.status}.`
  return (
    <>
      <DestroyIcon
        icon={RotateCcw}
        name={name}
        verb="Restore"
        what="snapshot"
        reason={notReady ?? whyNoMachine(live.status)}
        consequence="The VM is restored to this snapshot. Later changes are lost."
        send={async () => {
          await api.restoreVmSnapshot(target)
          await refreshAll('deployment')
          toast({ tone: 'info', title: `Restoring ${name}` })
        }}
      />
      <FormDialog
        title={`Fork ${name}`}
        lead={
          writes
            ? 'Starts a copy as a new app with its own identity and volumes. The volumes count towards the plan and are kept when the app is deleted.'
            : 'Starts copies as a new app. Each has its own identity.'
        }
        submit="Fork"
        trigger={open => <IconButton icon={Copy} label={`Fork ${name}`} reason={notReady} onClick={open} />}
        send={async values => {
          const app = values.text('app_name')
          const replicas = writes ? 1 : values.number('replicas')
          await api.forkVmSnapshot({ ...target, body: { app_name: app, replicas } })
          await refreshAll('apps', 'active')
          await navigate({ to: '/apps/$app', params: { app } })
        }}
        fields={
          <>
            <NameField label="Name of the new app" name="app_name" maxLength={40} />
            {!writes && <NumberField label="Replicas" name="replicas" min={1} max={20} defaultValue={1} />}
          </>
        }
      />
      <DestroyIcon
        name={name}
        what="snapshot"
        consequence="It cannot be restored. Apps that were started from it keep running."
        send={async () => {
          await api.deleteVmSnapshot(target)
          await refreshAll('vm-snapshots')
        }}
      />
    </>
  )
}

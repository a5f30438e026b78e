import type { VolumeSnapshot, VolumeWithAttachments } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { Camera, Copy, HardDrive, RotateCcw, Trash2 } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { Button, LinkButton } from '../../ui/button.tsx'
import { Destroy, FormDialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/form.tsx'
import { mib } from '../../ui/format.ts'
import { Card, Fact, Facts, Mono, Page } from '../../ui/layout.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { Status } from '../../ui/status.tsx'
import { Table } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'
import { Ago } from '../../ui/time.tsx'
import { Attachments, Usage } from './list.tsx'
import { Schedule } from './schedule.tsx'

export function VolumePage() {
  const { id } = useParams({ from: '/shell/volumes/$id' })
  const volumes = useQuery(queries.volumes())
  const volume = volumes.data?.find(one => one.id === id)
  return (
    <Page title={volume?.name ?? 'Volume'} actions={volume && <Delete volume={volume} />}>
      <Loaded query={volumes}>
        {() =>
          volume ? (
            <div className="space-y-4">
              <Card>
                <Facts>
                  <Fact name="Size">{mib(volume.size_mib)}</Fact>
                  <Fact name="Attached to">
                    <Attachments volume={volume} />
                  </Fact>
                  <Fact name="Pool">{volume.pool_name || 'default'}</Fact>
                  <Fact name="Created">
                    <Ago at={volume.created_at} />
                  </Fact>
                </Facts>
                <div className="mt-5 max-w-md">
                  <Usage id={id} named />
                </div>
              </Card>
              <Snapshots volume={volume} />
              <Schedule id={id} />
            </div>
          ) : (
            <Empty
              icon={HardDrive}
              title="There is no such volume"
              action={<LinkButton to="/volumes">All volumes</LinkButton>}
            >
              It may have been deleted, or belong to another project.
            </Empty>
          )
        }
      </Loaded>
    </Page>
  )
}

function Delete({ volume }: { readonly volume: VolumeWithAttachments }) {
  const navigate = useNavigate()
  const [attachment] = volume.attachments
  return (
    <Destroy
      name={volume.name}
      what="volume"
      consequence="Everything on it and all of its snapshots are gone for good."
      send={async () => {
        await api.deleteVolume({ volume_id: volume.id })
        await navigate({ to: '/volumes' })
        await refreshAll('volumes')
      }}
      trigger={open => (
        <Button
          onClick={open}
          reason={attachment && `It is attached to ${attachment.app_name}. Detach it there first.`}
        >
          <Trash2 aria-hidden="true" size={14} /> Delete
        </Button>
      )}
    />
  )
}

function Snapshots({ volume }: { readonly volume: VolumeWithAttachments }) {
  const snapshots = useQuery({
    ...queries.volumeSnapshots(volume.id),
    refetchInterval: ({ state }) => (state.data?.some(one => one.status === 'creating') ? 1000 : 30_000),
  })
  return (
    <Card
      flush
      title="Snapshots"
      lead="The volume at one moment. It can go back there, or a new volume can start from it."
      actions={<Take volume={volume} />}
    >
      <Loaded query={snapshots}>
        {all =>
          all.length === 0 ? (
            <Empty icon={Camera} title="No snapshots">
              Take one before something risky. It costs only what is changed afterwards.
            </Empty>
          ) : (
            <Table
              label="Snapshots"
              rows={all}
              keyOf={one => one.id}
              columns={[
                { title: 'Name', cell: one => <Mono className="font-medium">{one.name}</Mono> },
                { title: 'Status', cell: one => <Status status={one.status ?? 'ready'} /> },
                {
                  title: 'When',
                  wideOnly: true,
                  cell: one => (
                    <span className="text-muted">
                      <Ago at={one.created_at} />
                    </span>
                  ),
                },
                { title: '_Actions', right: true, cell: one => <Actions volume={volume} snapshot={one} /> },
              ]}
            />
          )
        }
      </Loaded>
    </Card>
  )
}

function Take({ volume }: { readonly volume: VolumeWithAttachments }) {
  return (
    <FormDialog
      title="Take a snapshot"
      submit="Take snapshot"
      trigger={open => (
        <Button size="small" onClick={open}>
          <Camera aria-hidden="true" size={13} /> Take snapshot
        </Button>
      )}
      send={async values => {
        await api.createVolumeSnapshot({ volume_id: volume.id, body: { name: values.text('name') } })
        await refreshAll('volume-snapshots')
      }}
      fields={<Field label="Name" name="name" required mono autoFocus maxLength={63} placeholder="before-upgrade" />}
    />
  )
}

function Actions({ volume, snapshot }: { readonly volume: VolumeWithAttachments; readonly snapshot: VolumeSnapshot }) {
  const { name } = snapshot
  const status = snapshot.status ?? 'ready'
  const notReady = status === 'ready' ? undefined : `The snapshot is ${status}.`
  return (
    <span className="inline-flex gap-1">
      <Destroy
        name={name}
        verb="Restore"
        what="snapshot"
        consequence={`${volume.name} goes back to where it was then. What was written since is lost.`}
        send={async () => {
          await api.restoreVolume({ volume_id: volume.id, body: { snapshot_name: name } })
          await refreshAll('volumes', 'volume-usage')
          toast({ tone: 'info', title: `${volume.name} goes back to ${name}` })
        }}
        trigger={open => (
          <Button look="quiet" size="smallIcon" aria-label={`Restore ${name}`} reason={notReady} onClick={open}>
            <RotateCcw aria-hidden="true" size={14} />
          </Button>
        )}
      />
      <FormDialog
        title={`Clone from ${name}`}
        lead="A new volume with what was on this one then."
        submit="Clone"
        trigger={open => (
          <Button look="quiet" size="smallIcon" aria-label={`Clone ${name}`} reason={notReady} onClick={open}>
            <Copy aria-hidden="true" size={14} />
          </Button>
        )}
        send={async values => {
          await api.cloneVolume({
            volume_id: volume.id,
            body: { name: values.text('name'), snapshot_name: name },
          })
          await refreshAll('volumes')
          toast({ tone: 'good', title: `${values.text('name')} was made` })
        }}
        fields={<Field label="Name of the new volume" name="name" required mono autoFocus maxLength={63} />}
      />
      <Destroy
        name={name}
        what="snapshot"
        consequence="It cannot be brought back. Clones of it stay."
        send={async () => {
          await api.deleteVolumeSnapshot({ snapshot_id: snapshot.id })
          await refreshAll('volume-snapshots')
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

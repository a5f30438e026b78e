import type { VolumeSnapshot, VolumeWithAttachments } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { Camera, Copy, HardDrive, RotateCcw, Trash2 } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll, whileCreating } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { Destroy, FormDialog } from '../../ui/dialog.tsx'
import { NameField } from '../../ui/form.tsx'
import { mib } from '../../ui/format.ts'
import { Card, Fact, Facts, Mono, Page } from '../../ui/layout.tsx'
import { ListCard } from '../../ui/listing.tsx'
import { AddButton, DestroyIcon, IconButton } from '../../ui/row-actions.tsx'
import { Loaded, Missing } from '../../ui/states.tsx'
import { Status } from '../../ui/status.tsx'
import { toast } from '../../ui/toast.tsx'
import { Ago } from '../../ui/time.tsx'
import { Attachments, Usage } from './list.tsx'
import { Move } from './move.tsx'
import { Schedule } from './schedule.tsx'

export function VolumePage() {
  const { id } = useParams({ from: '/shell/volumes/$id' })
  const volumes = useQuery(queries.volumes())
  const volume = volumes.data?.find(one => one.id === id)
  return (
    <Page title={volume?.name ?? 'Volume'} actions={volume && <Delete volume={volume} />}>
      <Loaded query={volumes}>
        {() => (volume ? <Whole volume={volume} /> : <Missing icon={HardDrive} what="volume" to="/volumes" />)}
      </Loaded>
    </Page>
  )
}

function Whole({ volume }: { readonly volume: VolumeWithAttachments }) {
  return (
    <div className="space-y-4">
      <Card>
        <Facts>
          <Fact name="Status">
            <Status status={volume.status ?? 'ready'} />
          </Fact>
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
          <Usage id={volume.id} named />
        </div>
      </Card>
      <Snapshots volume={volume} />
      <Schedule id={volume.id} />
      <Move volume={volume} />
    </div>
  )
}

const beingRestored = ({ status }: VolumeWithAttachments) =>
  status === 'restoring' ? 'The volume is being restored.' : undefined

function Delete({ volume }: { readonly volume: VolumeWithAttachments }) {
  const navigate = useNavigate()
  const [attachment] = volume.attachments
  return (
    <Destroy
      name={volume.name}
      what="volume"
      consequence="All its data and snapshots are deleted permanently."
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
  const snapshots = useQuery({ ...queries.volumeSnapshots(volume.id), refetchInterval: whileCreating })
  return (
    <ListCard
      title="Snapshots"
      lead="The volume at one point in time, to restore or to clone."
      actions={<Take volume={volume} />}
      query={snapshots}
      nothing={{
        icon: Camera,
        title: 'No snapshots',
        text: 'Take one before a risky change. It only uses space for later changes.',
      }}
      label="Snapshots"
      keyOf={one => one.id}
      columns={[
        { title: 'Name', cell: one => <Mono className="font-medium">{one.name}</Mono> },
        { title: 'Status', cell: one => <Status status={one.status ?? 'ready'} /> },
        { title: 'When', at: one => one.created_at },
      ]}
      actionsOf={one => <Actions volume={volume} snapshot={one} />}
    />
  )
}

function Take({ volume }: { readonly volume: VolumeWithAttachments }) {
  return (
    <FormDialog
      title="Take a snapshot"
      submit="Take snapshot"
      trigger={open => <AddButton text="Take snapshot" icon={Camera} reason={beingRestored(volume)} onClick={open} />}
      send={async values => {
        await api.createVolumeSnapshot({ volume_id: volume.id, body: { name: values.text('name') } })
        await refreshAll('volume-snapshots')
      }}
      fields={<NameField maxLength={63} placeholder="before-upgrade" />}
    />
  )
}

function Actions({ volume, snapshot }: { readonly volume: VolumeWithAttachments; readonly snapshot: VolumeSnapshot }) {
  const { name } = snapshot
  const status = snapshot.status ?? 'ready'
  const notReady = status === 'ready' ? undefined : `The snapshot is ${status}.`
  const inUse = beingRestored(volume)
  return (
    <>
      <DestroyIcon
        icon={RotateCcw}
        name={name}
        verb="Restore"
        what="snapshot"
        reason={notReady ?? inUse}
        consequence={`${volume.name} is restored to this snapshot. Later writes are lost.`}
        send={async () => {
          await api.restoreVolume({ volume_id: volume.id, body: { snapshot_name: name } })
          await refreshAll('volumes', 'volume-usage')
          toast({ tone: 'info', title: `Restoring ${name} on ${volume.name}` })
        }}
      />
      <FormDialog
        title={`Clone from ${name}`}
        lead="A new volume with the data of this snapshot."
        submit="Clone"
        trigger={open => <IconButton icon={Copy} label={`Clone ${name}`} reason={notReady} onClick={open} />}
        send={async values => {
          await api.cloneVolume({
            volume_id: volume.id,
            body: { name: values.text('name'), snapshot_name: name },
          })
          await refreshAll('volumes')
          toast({ tone: 'good', title: `${values.text('name')} was made` })
        }}
        fields={<NameField label="Name of the new volume" maxLength={63} />}
      />
      <DestroyIcon
        name={name}
        what="snapshot"
        reason={inUse}
        consequence="It cannot be restored. Clones of it are kept."
        send={async () => {
          await api.deleteVolumeSnapshot({ snapshot_id: snapshot.id })
          await refreshAll('volume-snapshots')
        }}
      />
    </>
  )
}

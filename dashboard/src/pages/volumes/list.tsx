import type { VolumeWithAttachments } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { HardDrive, Plus } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { FormDialog } from '../../ui/dialog.tsx'
import { Choice, Field, NameField } from '../../ui/form.tsx'
import { bytes, mib } from '../../ui/format.ts'
import { Mono } from '../../ui/layout.tsx'
import { ListPage } from '../../ui/listing.tsx'
import { Meter } from '../../ui/meter.tsx'
import { Skeleton } from '../../ui/states.tsx'

export function Volumes() {
  const volumes = useQuery(queries.volumes())
  return (
    <ListPage
      title="Volumes"
      lead="Disks that outlive the virtual machines that use them."
      create={<Create />}
      query={volumes}
      filter={{
        list: 'volumes',
        find: 'Find a volume',
        text: one => [one.name, ...one.attachments.map(({ app_name }) => app_name)].join(' '),
        status: one => (one.attachments.length > 0 ? 'attached' : 'detached'),
      }}
      nothing={{
        icon: HardDrive,
        title: 'No volumes yet',
        text: 'Create one and attach it to an app. Its data survives new deployments.',
      }}
      label="Volumes"
      keyOf={volume => volume.id}
      columns={[
        {
          title: 'Name',
          cell: volume => (
            <Link to="/volumes/$id" params={{ id: volume.id }} className="font-semibold hover:underline">
              {volume.name}
            </Link>
          ),
        },
        { title: 'Attached to', cell: volume => <Attachments volume={volume} /> },
        { title: 'Used', wideOnly: true, className: 'w-56', cell: volume => <Usage id={volume.id} /> },
        { title: 'Size', right: true, cell: volume => mib(volume.size_mib) },
        { title: 'Created', at: volume => volume.created_at, right: true },
      ]}
    />
  )
}

export function Attachments({ volume }: { readonly volume: VolumeWithAttachments }) {
  if (volume.attachments.length === 0) return <span className="text-faint">nothing</span>
  return (
    <ul>
      {volume.attachments.map(one => (
        <li key={one.app_id} className="truncate">
          <Link to="/apps/$app/volumes" params={{ app: one.app_name }} className="hover:underline">
            {one.app_name}
          </Link>{' '}
          <Mono className="text-muted">{one.mount_point}</Mono>
        </li>
      ))}
    </ul>
  )
}

export function Usage({ id, named = false }: { readonly id: string; readonly named?: boolean }) {
  const usage = useQuery(queries.volumeUsage(id))
  if (usage.isPending) return <Skeleton className="h-3 w-full" />
  if (!usage.data || usage.data.measured_at === null)
    return <span className="text-faint">{named ? 'Used space is not measured yet' : 'not measured yet'}</span>
  const { used_bytes, size_bytes } = usage.data
  const text = `${bytes(used_bytes)} of ${bytes(size_bytes)}`
  if (named) return <Meter label="Used" value={used_bytes} max={size_bytes} text={text} />
  return (
    <div className="grid grid-cols-[1fr_auto] items-center gap-2">
      <Meter bare label="Used" value={used_bytes} max={size_bytes} text={text} />
      <span className="text-xs text-muted">{bytes(used_bytes)}</span>
    </div>
  )
}

const mibOfGib = 1024

function Create() {
  return (
    <FormDialog
      title="New volume"
      submit="Create volume"
      trigger={open => (
        <Button look="primary" onClick={open}>
          <Plus aria-hidden="true" size={15} /> New volume
        </Button>
      )}
      send={async values => {
        const unit = values.text('unit') === 'GiB' ? mibOfGib : 1
        await api.createVolume({
          body: { name: values.text('name'), size_mib: Math.round((values.number('size_mib') ?? 0) * unit) },
        })
        await refreshAll('volumes')
      }}
      fields={
        <>
          <NameField maxLength={63} placeholder="app-data" hint="Letters, digits, dots, dashes and underscores." />
          <div className="grid grid-cols-[1fr_6rem] gap-3">
            <Field label="Size" name="size_mib" type="number" min={1} step="any" required defaultValue={10} />
            <Choice label="Unit" name="unit" defaultValue="GiB">
              <option>GiB</option>
              <option>MiB</option>
            </Choice>
          </div>
        </>
      }
    />
  )
}

import type { App } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { HardDrive, Unplug } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { LinkButton } from '../../ui/button.tsx'
import { FormDialog } from '../../ui/dialog.tsx'
import { Choice } from '../../ui/form.tsx'
import { mib } from '../../ui/format.ts'
import { Mono } from '../../ui/layout.tsx'
import { ListCard } from '../../ui/listing.tsx'
import { AddButton, DestroyIcon } from '../../ui/row-actions.tsx'
import { Notice } from '../../ui/states.tsx'
import { Badge } from '../../ui/status.tsx'
import { AttachFields, freeFor } from './attach-fields.tsx'
import { useApp } from './use-app.ts'

export function AppVolumes() {
  const app = useApp()
  const volumes = useQuery(queries.appVolumes(app.id))
  return (
    <ListCard
      title="Volumes"
      lead="Disks that outlive deployments. Virtual machines attach them at their next start."
      create={<Attach app={app} />}
      query={volumes}
      nothing={{
        icon: HardDrive,
        title: 'No volumes attached',
        text: 'Data on the disk of a virtual machine is lost with the virtual machine. Attach a volume to keep data.',
      }}
      label={`Volumes of ${app.name}`}
      keyOf={volume => volume.id}
      columns={[
        {
          title: 'Volume',
          cell: volume => (
            <Link to="/volumes/$id" params={{ id: volume.id }} className="font-medium hover:underline">
              {volume.name}
            </Link>
          ),
        },
        { title: 'At', cell: volume => <Mono>{volume.mount_point}</Mono> },
        {
          title: 'Access',
          wideOnly: true,
          cell: volume => <Badge>{volume.access_mode === 1 ? 'read-only' : 'read-write'}</Badge>,
        },
        { title: 'Size', right: true, cell: volume => mib(volume.size_mib) },
      ]}
      actionsOf={volume => (
        <DestroyIcon
          icon={Unplug}
          name={volume.name}
          what="volume"
          verb="Detach"
          consequence={`${app.name} loses ${volume.mount_point} at its next start. The data on the volume is kept.`}
          send={async () => {
            await api.detachVolume({ app_id: app.id, volume_id: volume.id })
            await refreshAll('app-volumes', 'volumes')
          }}
        />
      )}
    />
  )
}

function Attach({ app }: { readonly app: App }) {
  const volumes = useQuery(queries.volumes())
  const free = freeFor(app.id, volumes.data)
  if (volumes.data?.length === 0)
    return (
      <LinkButton to="/volumes" size="small">
        Create a volume first
      </LinkButton>
    )
  return (
    <FormDialog
      title="Attach a volume"
      submit="Attach"
      trigger={open => (
        <AddButton
          text="Attach volume"
          onClick={open}
          reason={volumes.data && free.length === 0 ? 'All volumes of the project are already attached.' : undefined}
        />
      )}
      send={async values => {
        await api.attachVolume({
          app_id: app.id,
          body: {
            volume_id: values.text('volume_id'),
            mount_point: values.text('mount_point'),
            access_mode: values.number('access_mode'),
          },
        })
        await refreshAll('app-volumes', 'volumes')
      }}
      fields={
        <>
          <AttachFields free={free} />
          <Choice label="Access" name="access_mode" defaultValue="0">
            <option value="0">Read and write, one virtual machine at a time</option>
            <option value="1">Read only, many virtual machines</option>
          </Choice>
          <Notice>Takes effect with the next deploy.</Notice>
        </>
      }
    />
  )
}

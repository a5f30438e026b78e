import type { App } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { HardDrive, Plus, Unplug } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { Button, LinkButton } from '../../ui/button.tsx'
import { Destroy, FormDialog } from '../../ui/dialog.tsx'
import { Choice, Field } from '../../ui/form.tsx'
import { mib } from '../../ui/format.ts'
import { Card, Mono } from '../../ui/layout.tsx'
import { Empty, Loaded, Notice } from '../../ui/states.tsx'
import { Badge } from '../../ui/status.tsx'
import { Table } from '../../ui/table.tsx'
import { useApp } from './use-app.ts'

export function AppVolumes() {
  const app = useApp()
  const volumes = useQuery(queries.appVolumes(app.id))
  return (
    <Card
      flush
      title="Volumes"
      lead="Disks that outlive deployments. Virtual machines have them from their next start."
      actions={volumes.data && volumes.data.length > 0 && <Attach app={app} />}
    >
      <Loaded query={volumes}>
        {all =>
          all.length === 0 ? (
            <Empty icon={HardDrive} title="No volumes attached" action={<Attach app={app} />}>
              What the program writes to its own disk is gone with the virtual machine. Attach a volume to keep it.
            </Empty>
          ) : (
            <Table
              label={`Volumes of ${app.name}`}
              rows={all}
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
                {
                  title: '_Actions',
                  right: true,
                  cell: volume => (
                    <Destroy
                      name={volume.name}
                      what="volume"
                      verb="Detach"
                      consequence={`The next start of ${app.name} does not have ${volume.mount_point} any more. Nothing on the volume is lost.`}
                      send={async () => {
                        await api.detachVolume({ app_id: app.id, volume_id: volume.id })
                        await refreshAll('app-volumes', 'volumes')
                      }}
                      trigger={open => (
                        <Button look="quiet" size="smallIcon" aria-label={`Detach ${volume.name}`} onClick={open}>
                          <Unplug aria-hidden="true" size={14} />
                        </Button>
                      )}
                    />
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
    </Card>
  )
}

function Attach({ app }: { readonly app: App }) {
  const volumes = useQuery(queries.volumes())
  const free = volumes.data?.filter(volume => !volume.attachments.some(one => one.app_id === app.id)) ?? []
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
        <Button
          size="small"
          onClick={open}
          reason={volumes.data && free.length === 0 ? 'Every volume of the project is attached to it.' : undefined}
        >
          <Plus aria-hidden="true" size={13} /> Attach volume
        </Button>
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
          <Choice label="Volume" name="volume_id" required>
            {free.map(volume => (
              <option key={volume.id} value={volume.id}>
                {volume.name} ({mib(volume.size_mib)})
              </option>
            ))}
          </Choice>
          <Field label="Mount point" name="mount_point" mono required defaultValue="/data" spellCheck={false} />
          <Choice label="Access" name="access_mode" defaultValue="0">
            <option value="0">Read and write, one virtual machine at a time</option>
            <option value="1">Read only, many virtual machines</option>
          </Choice>
          <Notice>It takes effect with the next deploy.</Notice>
        </>
      }
    />
  )
}

import type { LiveDeploymentStatus } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { HardDrive, Plus, Unplug } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { Destroy, FormDialog } from '../../ui/dialog.tsx'
import { Check, Choice, Field } from '../../ui/form.tsx'
import { mib } from '../../ui/format.ts'
import { Card, Mono } from '../../ui/layout.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { whyNotRunning } from './machine.ts'

interface Props {
  readonly app_name: string
  readonly live: LiveDeploymentStatus
}

/** Volumes of the app, and attaching one to the machine while it runs. */
export function RuntimeVolumes({ app_name, live }: Props) {
  const volumes = useQuery(queries.appVolumes(live.app_id))
  return (
    <Card
      flush
      title="Volumes"
      lead="Attached and detached while the machine runs."
      actions={<Attach app_name={app_name} live={live} />}
    >
      <Loaded query={volumes}>
        {all =>
          all.length === 0 ? (
            <Empty icon={HardDrive} title="No volumes attached">
              A volume keeps what the program writes, whatever happens to the machine.
            </Empty>
          ) : (
            <ul className="divide-y divide-line">
              {all.map(volume => (
                <li key={volume.id} className="flex items-center gap-3 px-4 py-2.5">
                  <HardDrive aria-hidden="true" size={15} className="text-muted" />
                  <span className="font-medium">{volume.name}</span>
                  <Mono className="text-muted">{volume.mount_point}</Mono>
                  <span className="ml-auto text-muted tabular-nums">{mib(volume.size_mib)}</span>
                  <Destroy
                    name={volume.name}
                    verb="Detach"
                    what="volume"
                    consequence={`The machine loses ${volume.mount_point} at once. Nothing on the volume is lost.`}
                    send={async () => {
                      await api.detachRuntimeVolume({ app_name, job_id: live.job_id, body: { volume_id: volume.id } })
                      await refreshAll('app-volumes', 'volumes')
                    }}
                    trigger={open => (
                      <Button
                        look="quiet"
                        size="smallIcon"
                        aria-label={`Detach ${volume.name}`}
                        reason={whyNotRunning(live.status)}
                        onClick={open}
                      >
                        <Unplug aria-hidden="true" size={14} />
                      </Button>
                    )}
                  />
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  )
}

function Attach({ app_name, live }: Props) {
  const volumes = useQuery(queries.volumes())
  const free = volumes.data?.filter(volume => !volume.attachments.some(one => one.app_id === live.app_id)) ?? []
  const none = volumes.data && free.length === 0 ? 'There is no other volume in this project.' : undefined
  const reason = whyNotRunning(live.status) ?? (volumes.error ? 'Volumes are not available on this server.' : none)
  return (
    <FormDialog
      title="Attach a volume"
      submit="Attach"
      trigger={open => (
        <Button size="small" reason={reason} onClick={open}>
          <Plus aria-hidden="true" size={13} /> Attach volume
        </Button>
      )}
      send={async values => {
        await api.attachRuntimeVolume({
          app_name,
          job_id: live.job_id,
          body: {
            volume_id: values.text('volume_id'),
            mount_point: values.text('mount_point'),
            read_only: values.checked('read_only'),
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
          <Check label="Read only" name="read_only" />
        </>
      }
    />
  )
}

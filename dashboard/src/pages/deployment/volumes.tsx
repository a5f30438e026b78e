import type { LiveDeploymentStatus } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { HardDrive, Unplug } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { FormDialog } from '../../ui/dialog.tsx'
import { Check } from '../../ui/form.tsx'
import { mib } from '../../ui/format.ts'
import { Card, Mono } from '../../ui/layout.tsx'
import { AddButton, DestroyIcon } from '../../ui/row-actions.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { isMoving, Status } from '../../ui/status.tsx'
import { AttachFields, freeFor } from '../app/attach-fields.tsx'
import { whyNotRunning } from './machine.ts'

interface Props {
  readonly app_name: string
  readonly live: LiveDeploymentStatus
}

/** Volumes of the app, which can be attached and detached while the VM runs. */
export function RuntimeVolumes({ app_name, live }: Props) {
  // Polled, because no event reports that the host has unplugged a volume.
  const volumes = useQuery({ ...queries.appVolumes(live.app_id), refetchInterval: 3000 })
  return (
    <Card
      flush
      title="Volumes"
      lead="Attach and detach volumes while the VM runs."
      actions={<Attach app_name={app_name} live={live} />}
    >
      <Loaded query={volumes}>
        {all =>
          all.length === 0 ? (
            <Empty icon={HardDrive} title="No volumes attached">
              A volume keeps data independently of the VM.
            </Empty>
          ) : (
            <ul className="divide-y divide-line">
              {all.map(volume => (
                <li key={volume.id} className="flex items-center gap-3 px-4 py-2.5">
                  <HardDrive aria-hidden="true" size={15} className="text-muted" />
                  <span className="font-medium">{volume.name}</span>
                  <Mono className="text-muted">{volume.mount_point}</Mono>
                  {isMoving(volume.status ?? '') && <Status status={volume.status ?? ''} />}
                  <span className="ml-auto text-muted tabular-nums">{mib(volume.size_mib)}</span>
                  <DestroyIcon
                    icon={Unplug}
                    name={volume.name}
                    verb="Detach"
                    what="volume"
                    reason={whyNotRunning(live.status)}
                    consequence={`The VM loses ${volume.mount_point} immediately. The data on the volume is kept.`}
                    send={async () => {
                      await api.detachRuntimeVolume({ app_name, job_id: live.job_id, body: { volume_id: volume.id } })
                      await refreshAll('app-volumes', 'volumes')
                    }}
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
  const free = freeFor(live.app_id, volumes.data)
  const none = volumes.data && free.length === 0 ? 'No other volume in this project.' : undefined
  const reason = whyNotRunning(live.status) ?? (volumes.error ? 'Volumes are not available on this server.' : none)
  return (
    <FormDialog
      title="Attach a volume"
      submit="Attach"
      trigger={open => <AddButton text="Attach volume" reason={reason} onClick={open} />}
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
          <AttachFields free={free} />
          <Check label="Read only" name="read_only" />
        </>
      }
    />
  )
}

import type { VolumeMoveStatus, VolumeWithAttachments } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { ArrowRightLeft } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { ActionButton } from '../../ui/action.tsx'
import { Button } from '../../ui/button.tsx'
import { FormDialog } from '../../ui/dialog.tsx'
import { Choice, Field } from '../../ui/form.tsx'
import { Card } from '../../ui/layout.tsx'
import { Meter } from '../../ui/meter.tsx'
import { Notice } from '../../ui/states.tsx'
import { Status } from '../../ui/status.tsx'

interface Props {
  readonly volume: VolumeWithAttachments
}

const isOver = (move: VolumeMoveStatus) => move.status === 'none' || move.ended_at != null

/** A card to move a detached volume to another host; an attached one moves with its VM. */
export function Move({ volume }: Props) {
  const move = useQuery({
    ...queries.volumeMove(volume.id),
    refetchInterval: ({ state }) => (state.data && !isOver(state.data) ? 700 : 10_000),
  })
  const last = move.data
  return (
    <Card
      title="Move"
      lead="Moves the volume with its snapshots to another host. An attached volume moves with its VM."
    >
      <div className="space-y-3">
        {last && last.status !== 'none' && <Last move={last} />}
        {last && !isOver(last) ? (
          <ActionButton
            act={async () => {
              await api.cancelVolumeMove({ volume_id: volume.id })
              await refreshAll('volume-move', 'volumes')
            }}
          >
            Cancel the move
          </ActionButton>
        ) : (
          <Start volume={volume} move={last} />
        )}
      </div>
    </Card>
  )
}

function Last({ move }: { readonly move: VolumeMoveStatus }) {
  const { percent = 0 } = move
  return (
    <div className="space-y-2">
      <Status status={move.status} />
      {!isOver(move) && <Meter label="Copied" value={percent} max={100} text={`${Math.round(percent)} %`} />}
      {move.error && <Notice tone="bad">{move.error}</Notice>}
    </div>
  )
}

function Start({ volume, move }: Props & { readonly move: VolumeMoveStatus | undefined }) {
  const me = useQuery(queries.me())
  const isAdmin = me.data?.role === 'Admin'
  const hosts = useQuery({ ...queries.hosts(), enabled: isAdmin })
  const others = hosts.data?.filter(host => host.id !== move?.host_id && host.status === 'up' && !host.cordoned) ?? []
  const reason = move?.obstacle || (hosts.data && others.length === 0 ? 'No other host accepts volumes.' : undefined)
  return (
    <FormDialog
      title={`Move ${volume.name}`}
      lead="The volume is copied and verified. It cannot be attached during the move."
      submit="Move"
      trigger={open => (
        <Button reason={reason} onClick={open}>
          <ArrowRightLeft aria-hidden="true" size={14} /> Move …
        </Button>
      )}
      send={async values => {
        await api.moveVolume({ volume_id: volume.id, body: { target_host: values.text('target_host') } })
        await refreshAll('volume-move', 'volumes')
      }}
      fields={
        isAdmin ? (
          <Choice label="Host" name="target_host" required>
            {others.map(host => (
              <option key={host.id} value={host.id}>
                {host.name}
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

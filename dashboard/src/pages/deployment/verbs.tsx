import type { App, LiveDeploymentStatus } from '@mote/client'
import { useNavigate } from '@tanstack/react-router'
import { CornerUpLeft, Ellipsis, Pause, Play, Square, Trash2, XCircle } from 'lucide-react'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { refreshAll } from '../../api/queries.ts'
import { ActionButton, attempt } from '../../ui/action.tsx'
import { Button } from '../../ui/button.tsx'
import { Destroy } from '../../ui/dialog.tsx'
import { Menu, MenuItem, MenuLine } from '../../ui/menu.tsx'
import { whyNot } from '../app/verbs.ts'
import { isOnTheWay } from './steps.ts'

const refresh = () => refreshAll('deployment', 'deployments', 'active', 'app', 'apps')

/** Buttons for operations on the deployment; unavailable ones are disabled with a reason. */
export function Verbs({ app, live }: { readonly app: App; readonly live: LiveDeploymentStatus }) {
  const [asked, setAsked] = useState<'stop' | 'delete'>()
  const navigate = useNavigate()
  const { status, job_id, app_name } = live
  const job = { app_name, job_id }
  const isServing = app.active_deployment_id === live.deployment_id
  const then = (act: () => Promise<unknown>) => async () => {
    await act()
    await refresh()
  }
  return (
    <>
      {isOnTheWay(status) && (
        <ActionButton
          reason={whyNot('cancel', status)}
          act={then(() => api.cancelDeployment(job))}
          done="Cancelling the deployment"
        >
          <XCircle aria-hidden="true" size={14} /> Cancel
        </ActionButton>
      )}
      {status === 'paused' || status === 'pausing' ? (
        <ActionButton look="primary" reason={whyNot('resume', status)} act={then(() => api.resumeDeployment(job))}>
          <Play aria-hidden="true" size={14} /> Resume
        </ActionButton>
      ) : (
        <ActionButton reason={whyNot('pause', status)} act={then(() => api.pauseDeployment(job))}>
          <Pause aria-hidden="true" size={14} /> Pause
        </ActionButton>
      )}
      <ActionButton
        reason={whyNot('activate', status, isServing)}
        act={then(() => api.activateDeployment({ app_name, deployment_id: live.deployment_id }))}
        done="The deployment starts serving once it is healthy"
      >
        <CornerUpLeft aria-hidden="true" size={14} /> Activate
      </ActionButton>
      <Menu
        trigger={
          <Button size="icon" aria-label="More actions">
            <Ellipsis aria-hidden="true" size={15} />
          </Button>
        }
      >
        <MenuItem onSelect={() => setAsked('stop')} reason={whyNot('stop', status)}>
          <Square aria-hidden="true" size={14} /> Stop …
        </MenuItem>
        <MenuLine />
        <MenuItem danger onSelect={() => setAsked('delete')} reason={whyNot('delete', status)}>
          <Trash2 aria-hidden="true" size={14} /> Delete …
        </MenuItem>
      </Menu>
      {asked === 'stop' && (
        <Asked
          verb="Stop"
          job={job_id}
          consequence={
            isServing
              ? 'It is serving: the app stops responding until you deploy or activate another one.'
              : 'Its virtual machines stop. You can activate it again.'
          }
          close={() => setAsked(undefined)}
          send={then(() => api.stopDeployment(job))}
        />
      )}
      {asked === 'delete' && (
        <Asked
          verb="Delete"
          job={job_id}
          consequence={`It is stopped first. Its record, log and snapshots are deleted, and ${app_name} can no longer be rolled back to it.`}
          close={() => setAsked(undefined)}
          send={async () => {
            await attempt(() => api.deleteDeployment(job), 'The deployment is being deleted')
            await navigate({ to: '/apps/$app/deployments', params: { app: app_name } })
            await refresh()
          }}
        />
      )}
    </>
  )
}

/** A confirmation dialog, open as soon as it is rendered: a menu item renders it when the user selects the item. */
function Asked({
  verb,
  job,
  consequence,
  close,
  send,
}: {
  readonly verb: string
  readonly job: string
  readonly consequence: string
  readonly close: () => void
  readonly send: () => Promise<unknown>
}) {
  return (
    <Destroy
      open
      name={job}
      verb={verb}
      what="deployment"
      consequence={consequence}
      send={send}
      onClose={close}
      trigger={() => null}
    />
  )
}

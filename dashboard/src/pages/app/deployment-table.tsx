import type { App, Deployment } from '@mote/client'
import { Link } from '@tanstack/react-router'
import { CornerUpLeft, Rocket } from 'lucide-react'
import { api } from '../../api/client.ts'
import { refreshAll } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { DialogButton } from '../../ui/dialog.tsx'
import { ActionButton } from '../../ui/action.tsx'
import { mib } from '../../ui/format.ts'
import { Mono } from '../../ui/layout.tsx'
import { Badge, Status } from '../../ui/status.tsx'
import { Table } from '../../ui/table.tsx'
import { whyNot } from './verbs.ts'

export function DeploymentTable({
  app,
  deployments,
}: {
  readonly app: App
  readonly deployments: readonly Deployment[]
}) {
  return (
    <Table
      label={`Deployments of ${app.name}`}
      rows={deployments}
      keyOf={one => one.id}
      columns={[
        {
          title: 'Deployment',
          cell: one => (
            <div className="min-w-0">
              <Link
                to="/apps/$app/deployments/$job"
                params={{ app: app.name, job: one.job_id }}
                className="font-semibold hover:underline"
              >
                {one.git_commit_message || one.image_tag || 'Not built yet'}
              </Link>
              <p className="max-w-28 truncate text-xs text-muted sm:max-w-72">
                <Mono>{one.job_id}</Mono>
              </p>
            </div>
          ),
        },
        {
          title: 'Status',
          cell: one => (
            <span className="flex flex-wrap items-center gap-2">
              <Status status={one.status} />
              {one.id === app.active_deployment_id && <Badge tone="good">Serving</Badge>}
            </span>
          ),
        },
        {
          title: 'Size',
          wideOnly: true,
          cell: one => (
            <span className="text-muted">
              {one.vcpus} vCPU · {mib(one.memory_mib)}
            </span>
          ),
        },
        { title: 'By', wideOnly: true, cell: one => <span className="text-muted">{one.trigger_source}</span> },
        { title: 'When', at: one => one.created_at },
      ]}
      actionsOf={one => <Activate app={app} deployment={one} newest={deployments[0]} />}
    />
  )
}

function Activate({
  app,
  deployment,
  newest,
}: {
  readonly app: App
  readonly deployment: Deployment
  readonly newest: Deployment | undefined
}) {
  const isServing = deployment.id === app.active_deployment_id
  const verb = deployment.id === newest?.id ? 'Activate' : 'Roll back'
  const reason = whyNot('activate', deployment.status, isServing)
  return (
    <DialogButton
      title={`${verb} to ${deployment.image_tag}`}
      lead="Its virtual machines start again. The current deployment keeps serving until they are healthy."
      trigger={open => (
        <Button size="small" look="quiet" reason={reason} onClick={open} aria-label={`${verb} to ${deployment.job_id}`}>
          {verb === 'Activate' ? (
            <Rocket aria-hidden="true" size={13} />
          ) : (
            <CornerUpLeft aria-hidden="true" size={13} />
          )}
          <span className="hidden sm:inline">{verb}</span>
        </Button>
      )}
    >
      {close => (
        <div className="flex justify-end gap-2">
          <Button look="quiet" onClick={close}>
            Cancel
          </Button>
          <ActionButton
            look="primary"
            done={`Activating ${deployment.image_tag}`}
            act={async () => {
              await api.activateDeployment({ app_name: app.name, deployment_id: deployment.id })
              close()
              await refreshAll('app', 'apps', 'active', 'deployments')
            }}
          >
            {verb}
          </ActionButton>
        </div>
      )}
    </DialogButton>
  )
}

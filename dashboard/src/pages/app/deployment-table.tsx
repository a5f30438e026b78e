import { type App, type Deployment, authorOf, versionOf } from '@mote/client'
import { Link } from '@tanstack/react-router'
import { CornerUpLeft, Rocket } from 'lucide-react'
import { api } from '../../api/client.ts'
import { refreshAll } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { DialogButton } from '../../ui/dialog.tsx'
import { ActionButton } from '../../ui/action.tsx'
import { duration, mib } from '../../ui/format.ts'
import { Mono } from '../../ui/layout.tsx'
import { Badge, Status } from '../../ui/status.tsx'
import { Table } from '../../ui/table.tsx'
import { whyNot } from './verbs.ts'

export function DeploymentTable({
  app,
  deployments,
  newest = deployments[0],
}: {
  readonly app: App
  readonly deployments: readonly Deployment[]
  /** The app's newest deployment: activating any other one is called a rollback. */
  readonly newest?: Deployment | undefined
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
                className="line-clamp-2 font-semibold wrap-anywhere hover:underline"
              >
                {versionOf(one)}
              </Link>
              <p className="max-w-28 truncate text-xs text-muted sm:max-w-72">
                {one.git_commit_hash ? (
                  <>
                    <Mono>{one.git_commit_hash.slice(0, 10)}</Mono> {one.git_branch}
                  </>
                ) : (
                  <Mono>{one.job_id}</Mono>
                )}
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
        {
          title: 'Requests',
          wideOnly: true,
          cell: one => <span className="whitespace-nowrap text-muted">{requestsText(one)}</span>,
        },
        {
          title: 'Took',
          wideOnly: true,
          cell: one => (
            <span className="whitespace-nowrap text-muted">
              {one.duration_ms === null ? '–' : duration(one.duration_ms)}
            </span>
          ),
        },
        {
          title: 'By',
          wideOnly: true,
          cell: one => <span className="block max-w-40 truncate text-muted">{authorOf(one)}</span>,
        },
        { title: 'When', at: one => one.created_at },
      ]}
      actionsOf={one => <Activate app={app} deployment={one} newest={newest} />}
    />
  )
}

/** Formats the number of requests that a deployment has served so far, and how many of them failed. */
export function requestsText({ requests, failed_requests: failed }: Deployment): string {
  if (requests === 0) return '–'
  const all = requests.toLocaleString('en')
  return failed === 0 ? all : `${all}, ${failed.toLocaleString('en')} failed`
}

/**
 * The button that activates a deployment or rolls back to it. @param label text of the button; default: "Activate" or
 * "Roll back"
 */
export function Activate({
  app,
  deployment,
  newest,
  label,
}: {
  readonly label?: string
  readonly app: App
  readonly deployment: Deployment
  readonly newest: Deployment | undefined
}) {
  const isServing = deployment.id === app.active_deployment_id
  const verb = deployment.id === newest?.id ? 'Activate' : 'Roll back'
  const reason = whyNot('activate', deployment.status, isServing)
  return (
    <DialogButton
      title={`${verb} to ${versionOf(deployment)}`}
      lead="Its virtual machines start again. The current deployment keeps serving until they are healthy."
      trigger={open => (
        <Button size="small" look="quiet" reason={reason} onClick={open} aria-label={`${verb} to ${deployment.job_id}`}>
          {verb === 'Activate' ? (
            <Rocket aria-hidden="true" size={13} />
          ) : (
            <CornerUpLeft aria-hidden="true" size={13} />
          )}
          <span className={label ? '' : 'hidden sm:inline'}>{label ?? verb}</span>
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
            done={`Activating ${versionOf(deployment)}`}
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

import {
  type App,
  type Deployment,
  type LiveDeployment,
  authorOf,
  imageName,
  shortImage,
  versionOf,
} from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Rocket } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { ActionButton } from '../../ui/action.tsx'
import { LinkButton } from '../../ui/button.tsx'
import { bytes, mib, percent } from '../../ui/format.ts'
import { Card, Fact, Facts, Mono } from '../../ui/layout.tsx'
import { LiveDot } from '../../ui/live-dot.tsx'
import { Log } from '../../ui/log.tsx'
import { Empty, Loaded, Notice, Skeleton } from '../../ui/states.tsx'
import { Status } from '../../ui/status.tsx'
import { Ago } from '../../ui/time.tsx'
import { FirstDeployButton } from './deploy-dialog.tsx'
import { Activate, DeploymentTable, requestsText } from './deployment-table.tsx'
import { liveOf } from './live.ts'
import { TrafficFacts } from './history.tsx'
import { Charts } from './charts.tsx'
import { useApp } from './use-app.ts'
import { rollbackTarget } from './verbs.ts'
import { useMetrics } from './use-metrics.ts'

const shownDeployments = 5

export function Overview() {
  const app = useApp()
  const deployments = useQuery(queries.deployments(app.name))
  const active = useQuery(queries.active())
  if (deployments.data?.length === 0) return <FirstDeploy app={app} />
  const live = liveOf(app, active.data ?? [])
  // Reserve space for the cards of the deployment while it is being loaded, so that nothing below them moves.
  const isExpected = live !== undefined || (active.isPending && app.active_deployment_id !== null)
  return (
    <div className="space-y-4">
      <Waiting app={app} active={active.data ?? []} />
      {app.scale_state === 'scaled_to_zero' && (
        <Notice>This app had no requests for a while and is suspended. The next request wakes it.</Notice>
      )}
      {!live && app.failure !== null && deployments.data?.[0] && (
        <Failed app={app} message={app.failure} job={deployments.data[0].job_id} />
      )}
      <Serving app={app} live={live} deployments={deployments.data ?? []} isLoading={active.isPending} />
      {isExpected && app.kind === 'web' && <LastDay name={app.name} />}
      {isExpected && <LiveCharts name={app.name} />}
      <Card
        flush
        title="Deployments"
        actions={
          <LinkButton look="quiet" size="small" to="/apps/$app/deployments" params={{ app: app.name }}>
            All deployments
          </LinkButton>
        }
      >
        <Loaded query={deployments}>
          {all => <DeploymentTable app={app} deployments={all.slice(0, shownDeployments)} newest={all[0]} />}
        </Loaded>
      </Card>
      <Card
        flush
        title="Log"
        className="overflow-hidden"
        actions={
          <LinkButton look="quiet" size="small" to="/apps/$app/logs" params={{ app: app.name }}>
            Whole log
          </LinkButton>
        }
      >
        <Log
          source={app.name}
          name={app.name}
          open={options => api.streamAppLogs({ app_name: app.name, query: { tail: 100 } }, options)}
          className="h-72"
        />
      </Card>
    </div>
  )
}

function FirstDeploy({ app }: { readonly app: App }) {
  return (
    <Card>
      <Empty icon={Rocket} title="Nothing is deployed yet" action={<FirstDeployButton app={app} />}>
        The first deployment starts virtual machines, waits until port {app.port} responds on {app.health_check_path},
        and then puts the app online.
      </Empty>
    </Card>
  )
}

/** A notice on why the newest deployment does not serve. */
function Failed({ app, message, job }: { readonly app: App; readonly message: string; readonly job: string }) {
  return (
    <Notice tone="bad">
      <span className="whitespace-pre-wrap">The last deployment failed{message ? `: ${message}` : '.'}</span>{' '}
      <Link to="/apps/$app/deployments/$job" params={{ app: app.name, job }} className="font-medium underline">
        Details and log
      </Link>
    </Notice>
  )
}

/** A notice about a deployment that is being rolled out while another one serves. */
function Waiting({ app, active }: { readonly app: App; readonly active: readonly LiveDeployment[] }) {
  const coming = active.find(
    one => one.app_id === app.id && ['pending', 'building', 'scheduled', 'starting'].includes(one.status),
  )
  if (!coming) return null
  return (
    <Notice>
      A deployment of <Mono>{imageName(coming.image)}</Mono> is {coming.status}.{' '}
      <Link
        to="/apps/$app/deployments/$job"
        params={{ app: app.name, job: coming.job_id }}
        className="font-medium underline"
      >
        Watch it
      </Link>
    </Notice>
  )
}

function Serving({
  app,
  live,
  deployments,
  isLoading,
}: {
  readonly app: App
  readonly live: LiveDeployment | undefined
  readonly deployments: readonly Deployment[]
  readonly isLoading: boolean
}) {
  if (isLoading) return <Skeleton className={app.active_deployment_id === null ? 'h-12' : 'h-86'} />
  if (!live) return <Notice tone="warn">Nothing is running. Deploy, or activate one of the deployments below.</Notice>
  const serving = deployments.find(one => one.id === live.deployment_id)
  const earlier = rollbackTarget(deployments, app.active_deployment_id)
  return (
    <Card
      title={live.deployment_id === app.active_deployment_id ? 'Serving now' : 'Starting'}
      actions={
        <>
          <ActionButton
            size="small"
            look="quiet"
            done="New VMs of the same version start; the current ones serve until they are healthy"
            act={async () => {
              const { image } = live
              await api.deployApp({ app_name: app.name, body: { image } })
              await refreshAll('active', 'deployments')
            }}
          >
            Restart
          </ActionButton>
          {earlier && <Activate app={app} deployment={earlier} newest={deployments[0]} label="Roll back" />}
          <LinkButton look="quiet" size="small" to="/apps/$app/logs" params={{ app: app.name }}>
            Logs
          </LinkButton>
          <LinkButton look="quiet" size="small" to="/apps/$app/terminal" params={{ app: app.name }}>
            Terminal
          </LinkButton>
          <LinkButton look="quiet" size="small" to="/apps/$app/scale" params={{ app: app.name }}>
            Scale
          </LinkButton>
          <LinkButton
            look="plain"
            size="small"
            to="/apps/$app/deployments/$job"
            params={{ app: app.name, job: live.job_id }}
          >
            Manage
          </LinkButton>
        </>
      }
    >
      <Facts>
        <Fact name="Version" wide>
          {serving ? versionOf(serving) : shortImage(live.image)}
        </Fact>
        <Fact name="Status">
          <Status status={live.status} />
        </Fact>
        <Fact name="Health">{healthOf(app, live.status)}</Fact>
        <Fact name="Serving since">{serving?.started_at ? <Ago at={serving.started_at} /> : '–'}</Fact>
        <Fact name="Requests since then">{serving ? requestsText(serving) : '–'}</Fact>
        <Fact name="Deployed by">{serving ? authorOf(serving) : '–'}</Fact>
        {serving?.git_commit_hash ? (
          <Fact name="Commit" wide>
            <Mono>{serving.git_commit_hash.slice(0, 10)}</Mono> {serving.git_branch && `on ${serving.git_branch}`}
          </Fact>
        ) : (
          <Fact name="Image" wide>
            <Mono>{imageName(live.image)}</Mono>
          </Fact>
        )}
        <Fact name="Size">
          {live.vcpus} vCPU · {mib(live.memory_mib)}
        </Fact>
        <Fact name="Replicas">
          {app.autoscaling_enabled
            ? `${app.desired_replicas} (from ${app.min_replicas} to ${app.max_replicas})`
            : app.desired_replicas}
        </Fact>
        <Fact name="CPU">{percent(live.cpu_usage)}</Fact>
        <Fact name="Memory">{bytes(live.ram_used_bytes)}</Fact>
        <Fact name="Hypervisor">{live.hypervisor || '–'}</Fact>
        <Fact name="Private address" wide>
          <Mono>{live.ipv6_address || '–'}</Mono>
        </Fact>
      </Facts>
    </Card>
  )
}

/** The result of the health check as text. */
function healthOf({ kind, health_check_path: path }: App, status: string): string {
  const check = kind === 'web' ? `GET ${path}` : 'its process'
  if (status === 'running') return `Passing (${check})`
  return status === 'unhealthy' ? `Failing (${check})` : '–'
}

function LastDay({ name }: { readonly name: string }) {
  const history = useQuery(queries.history(name, '24h'))
  return (
    <Card
      title="Traffic of the last day"
      lead="Counted once a minute."
      actions={
        <LinkButton look="quiet" size="small" to="/apps/$app/metrics" params={{ app: name }}>
          Charts
        </LinkButton>
      }
    >
      <Loaded query={history} skeleton={<Skeleton className="h-20" />}>
        {found => <TrafficFacts totals={found.totals} />}
      </Loaded>
    </Card>
  )
}

function LiveCharts({ name }: { readonly name: string }) {
  const { points, state } = useMetrics(name)
  if (points.length === 0) return <Skeleton className="h-110" />
  return (
    <section aria-label="Live metrics">
      <div className="mb-2 flex justify-end">
        <LiveDot state={state} />
      </div>
      <Charts points={points} heightPx={120} />
    </section>
  )
}

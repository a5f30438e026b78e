import { type LiveDeploymentStatus, authorOf, imageName, shortImage, versionOf } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { Rocket } from 'lucide-react'
import { sampleImage } from '../../../../src/lib/sample.ts'
import { api } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { cx } from '../../ui/cx.ts'
import { bytes, duration, mib, percent, shortId } from '../../ui/format.ts'
import { Card, Fact, Facts, Mono, Page } from '../../ui/layout.tsx'
import { Log } from '../../ui/log.tsx'
import { isMissing, Loaded, Missing, Notice } from '../../ui/states.tsx'
import { Badge, isMoving, Status } from '../../ui/status.tsx'
import { Ago } from '../../ui/time.tsx'
import { MissingApp } from '../app/frame.tsx'
import { Balloon } from './balloon.tsx'
import { BuildCard, useBuild } from './build.tsx'
import { Canary } from './canary.tsx'
import { Changes } from './changes.tsx'
import { Exec } from './exec.tsx'
import { Migration } from './migration.tsx'
import { Online } from './online.tsx'
import { Progress } from './progress.tsx'
import { Snapshots } from './snapshots.tsx'
import { isOnTheWay } from './steps.ts'
import { Verbs } from './verbs.tsx'
import { RuntimeVolumes } from './volumes.tsx'

/** Polling interval while the status changes; short enough to show each step of a start. */
const busyMs = 700
const calmMs = 5000

/** The name of a host; only shown to Admins, because the API does not return hosts to others. */
function HostName({ id }: { readonly id: string }) {
  const me = useQuery(queries.me())
  const hosts = useQuery({ ...queries.hosts(), enabled: me.data?.role === 'Admin' })
  const host = hosts.data?.find(one => one.id === id)
  return host ? host.name : <Mono>{shortId(id) || '–'}</Mono>
}

export function DeploymentPage() {
  const { app: name, job } = useParams({ from: '/shell/apps/$app/deployments/$job' })
  const deployment = useQuery({
    ...queries.deployment(name, job),
    refetchInterval: ({ state }) => (state.data && isMoving(state.data.status) ? busyMs : calmMs),
  })
  const app = useQuery(queries.app(name))
  const build = useBuild({ app_name: name, job_id: job })
  const deployments = useQuery(queries.deployments(name))
  const record = deployments.data?.find(one => one.job_id === job)
  if (isMissing(app.error) && !app.data) return <MissingApp name={name} />
  return (
    <Page
      title={
        <span className="flex flex-wrap items-center gap-3">
          <span className="min-w-0 wrap-anywhere">
            {record ? versionOf(record) : (deployment.data && shortImage(deployment.data.image)) || 'Deployment'}
          </span>
          {deployment.data && <Status status={deployment.data.status} />}
          {app.data && deployment.data && app.data.active_deployment_id === deployment.data.deployment_id && (
            <Badge tone="good">Serving</Badge>
          )}
        </span>
      }
      lead={
        <>
          Deployment of{' '}
          <Link to="/apps/$app" params={{ app: name }} className="font-medium text-accent-text hover:underline">
            {name}
          </Link>
          {record && (
            <>
              , by {authorOf(record)}, <Ago at={record.created_at} />
              {record.duration_ms !== null && `, took ${duration(record.duration_ms)}`}
            </>
          )}{' '}
          · <Mono className="whitespace-nowrap">{job}</Mono>
        </>
      }
      actions={deployment.data && app.data && <Verbs app={app.data} live={deployment.data} />}
    >
      {isMissing(deployment.error) && !deployment.data ? (
        <Card>
          <Missing icon={Rocket} what="deployment" to="/apps/$app/deployments" params={{ app: name }} />
        </Card>
      ) : (
        <Loaded query={deployment}>
          {live => (
            <div className="grid grid-cols-1 gap-4 lg:grid-cols-[minmax(0,1fr)_320px]">
              <div className="min-w-0 space-y-4">
                {live.error_message && !build?.error && (
                  <Notice tone={isOnTheWay(live.status) ? 'warn' : 'bad'}>
                    <span className="whitespace-pre-wrap">{live.error_message}</span>
                  </Notice>
                )}
                {build && <BuildCard build={build} app_name={name} />}
                <Changes app_name={name} job_id={job} deployments={deployments.data ?? []} />
                {hasImage(live) && <Machine app_name={name} live={live} />}
              </div>
              <div className={cx('min-w-0 space-y-4', comesFirst(live) && 'order-first lg:order-none')}>
                {app.data && <Online app={app.data} live={live} />}
                <Canary live={live} />
                <Progress live={live} build={build} />
                {hasImage(live) && (
                  <>
                    <Balloon app_name={name} live={live} />
                    <Migration app_name={name} live={live} />
                  </>
                )}
              </div>
            </div>
          )}
        </Loaded>
      )}
    </Page>
  )
}

/**
 * Whether narrow screens show the progress and the address before everything else: during a rollout, and for the sample
 * app.
 */
const comesFirst = ({ status, image }: LiveDeploymentStatus) => isOnTheWay(status) || image === sampleImage

/** A deployment without an image never had a VM: its build is in progress or failed. */
const hasImage = ({ image }: LiveDeploymentStatus) => image !== ''

function Machine({ app_name, live }: { readonly app_name: string; readonly live: LiveDeploymentStatus }) {
  const { job_id } = live
  return (
    <>
      <Card title="Virtual machine">
        <Facts>
          <Fact name="Image" wide>
            <Mono>{imageName(live.image)}</Mono>
          </Fact>
          <Fact name="Size">
            {live.vcpus} vCPU · {mib(live.memory_mib)}
          </Fact>
          <Fact name="Hypervisor">{live.hypervisor || 'chosen when placed'}</Fact>
          <Fact name="Host">
            <HostName id={live.host_id} />
          </Fact>
          <Fact name="CPU">{percent(live.cpu_usage)}</Fact>
          <Fact name="Memory in use">{bytes(live.ram_used_bytes)}</Fact>
          <Fact name="Received · sent">
            {bytes(live.rx_bytes)} · {bytes(live.tx_bytes)}
          </Fact>
          <Fact name="Healthy since">
            <Ago at={live.started_at ? new Date(live.started_at * 1000).toISOString() : null} />
          </Fact>
          <Fact name="Private address" wide>
            <Mono>{live.ipv6_address || '–'}</Mono>
          </Fact>
        </Facts>
      </Card>
      <Card
        flush
        title="Log"
        className="overflow-hidden"
        actions={
          <Link
            to="/apps/$app/logs"
            params={{ app: app_name }}
            search={{ deployment: job_id }}
            className="text-sm underline"
          >
            Search in the logs
          </Link>
        }
      >
        <Log
          source={`${app_name}/${job_id}`}
          name={`${app_name}-${job_id}`}
          open={options => api.streamDeploymentLogs({ app_name, job_id, query: { tail: 500 } }, options)}
          className="h-80"
        />
      </Card>
      <Snapshots app_name={app_name} live={live} />
      <RuntimeVolumes app_name={app_name} live={live} />
      <Exec app_name={app_name} live={live} />
    </>
  )
}

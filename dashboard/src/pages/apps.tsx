import { type App, type LiveDeployment, shortFailure } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ExternalLink, Plus } from 'lucide-react'
import { queries } from '../api/queries.ts'
import { LinkButton } from '../ui/button.tsx'
import { useRowFilter } from '../ui/filter.tsx'
import { bytes, mib, percent, plural } from '../ui/format.ts'
import { Card, Page } from '../ui/layout.tsx'
import { Meter } from '../ui/meter.tsx'
import { Loaded } from '../ui/states.tsx'
import { Status } from '../ui/status.tsx'
import { Ago } from '../ui/time.tsx'
import { appStatus, liveOf } from './app/live.ts'
import { FirstApp } from './first-app.tsx'

export function Apps() {
  const apps = useQuery(queries.apps())
  const active = useQuery(queries.active())
  const stateOf = (app: App) => appStatus(app, active.data ?? [])
  const filter = { list: 'apps', find: 'Find an app', text: (app: App) => app.name, status: stateOf }
  const { bar, shows, nothing } = useRowFilter(filter, active.data ? apps.data : undefined)
  const found = apps.data?.filter(shows)
  return (
    <Page
      title="Apps"
      lead="Each app runs in its own virtual machines and has its own hostname."
      actions={
        <LinkButton to="/apps/new" look="primary">
          <Plus aria-hidden="true" size={15} /> New app
        </LinkButton>
      }
    >
      <div className="mb-4 flex flex-wrap items-center gap-3 empty:hidden">{bar}</div>
      <Card flush>
        <Loaded query={apps}>
          {all =>
            all.length === 0 ? (
              <FirstApp />
            ) : (
              <ul aria-label="Apps" className="divide-y divide-line">
                {found?.map(app => (
                  <AppRow key={app.id} app={app} active={active.data ?? []} />
                ))}
                {found?.length === 0 && <li className="px-4 py-8 text-center text-muted">{nothing}</li>}
              </ul>
            )
          }
        </Loaded>
      </Card>
    </Page>
  )
}

function AppRow({ app, active }: { readonly app: App; readonly active: readonly LiveDeployment[] }) {
  const live = liveOf(app, active)
  const state = appStatus(app, active)
  return (
    <li className="relative grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-6 gap-y-2 px-4 py-3 hover:bg-hover/50 md:grid-cols-[minmax(0,1.6fr)_7.5rem_9rem_8rem_8rem]">
      <div className="flex min-w-0 items-center gap-3">
        <span
          aria-hidden="true"
          className="grid size-9 shrink-0 place-items-center rounded-lg border border-line bg-hover font-mono text-sm font-semibold text-muted"
        >
          {app.name.slice(0, 2)}
        </span>
        <div className="min-w-0">
          <Link
            to="/apps/$app"
            params={{ app: app.name }}
            className="font-semibold after:absolute after:inset-0 hover:underline"
          >
            {app.name}
          </Link>
          <Address of={app} />
          {state === 'failed' && app.failure && (
            <p className="truncate text-xs text-bad" title={app.failure}>
              {shortFailure(app.failure)}
            </p>
          )}
        </div>
      </div>
      <Status status={state} />
      <Load live={live} replicas={Math.max(app.desired_replicas, 1)} />
      <div className="hidden text-muted md:block">
        <p className="tabular-nums">
          {live ? plural(Math.max(app.desired_replicas, 1), 'replica') : plural(app.desired_replicas, 'replica')}
        </p>
        <p className="truncate text-xs text-faint">
          {live ? `${live.vcpus} vCPU · ${mib(live.memory_mib)}` : 'not running'}
        </p>
      </div>
      <span className="hidden text-right text-xs text-faint md:block">
        created <Ago at={app.created_at} />
      </span>
    </li>
  )
}

function Load({ live, replicas }: { readonly live: LiveDeployment | undefined; readonly replicas: number }) {
  if (!live) return <span className="hidden text-faint md:block">–</span>
  const memoryBytes = replicas * live.memory_mib * 1024 * 1024
  return (
    <div className="hidden space-y-1.5 md:block">
      <div className="grid grid-cols-[1fr_3.5rem] items-center gap-2 text-xs text-muted tabular-nums">
        <Meter bare label="CPU" value={live.cpu_usage} max={100} text={percent(live.cpu_usage)} />
        <span aria-hidden="true">{percent(live.cpu_usage)}</span>
        <Meter bare label="Memory" value={live.ram_used_bytes} max={memoryBytes} text={bytes(live.ram_used_bytes)} />
        <span aria-hidden="true" className="whitespace-nowrap">
          {bytes(live.ram_used_bytes)}
        </span>
      </div>
    </div>
  )
}

function Address({ of: { hostname, url } }: { readonly of: App }) {
  if (!hostname || !url) return null
  return (
    <a
      href={url}
      target="_blank"
      rel="noreferrer"
      className="relative z-10 flex w-fit max-w-full items-center gap-1 font-mono text-xs text-muted hover:text-text hover:underline"
    >
      <span className="truncate">{hostname}</span>
      <ExternalLink aria-label="opens in a new tab" size={11} className="shrink-0" />
    </a>
  )
}

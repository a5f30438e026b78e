import { useQuery } from '@tanstack/react-query'
import { Outlet, useParams } from '@tanstack/react-router'
import { Boxes, ExternalLink, Rocket } from 'lucide-react'
import { queries } from '../../api/queries.ts'
import { isMissing, Loaded, Missing, Skeleton } from '../../ui/states.tsx'
import { Card, Page } from '../../ui/layout.tsx'
import { Status } from '../../ui/status.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { DeployDialog } from './deploy-dialog.tsx'
import { Button } from '../../ui/button.tsx'
import { appStatus } from './live.ts'

export function MissingApp({ name }: { readonly name: string }) {
  return (
    <Page title={name}>
      <Card>
        <Missing icon={Boxes} what="app" to="/apps" />
      </Card>
    </Page>
  )
}

export function AppFrame() {
  const { app: name } = useParams({ from: '/shell/apps/$app' })
  const app = useQuery(queries.app(name))
  const active = useQuery(queries.active())
  if (isMissing(app.error) && !app.data) return <MissingApp name={name} />
  const params = { app: name }
  return (
    <div>
      <header className="border-b border-line bg-surface">
        <div className="mx-auto max-w-[1080px] px-4 pt-6 md:px-8">
          <div className="mb-4 flex flex-wrap items-start justify-between gap-3">
            <div className="min-w-0">
              <h1 className="flex items-center gap-3 text-xl font-semibold tracking-tight">
                <span className="truncate">{name}</span>
                {app.data && <Status status={appStatus(app.data, active.data ?? [])} />}
              </h1>
              {app.data?.url ? (
                <a
                  href={app.data.url}
                  target="_blank"
                  rel="noreferrer"
                  className="mt-1 inline-flex max-w-full items-center gap-1 font-mono text-xs text-muted hover:text-text hover:underline"
                >
                  <span className="truncate">{app.data.url}</span>
                  <ExternalLink aria-label="opens in a new tab" size={11} className="shrink-0" />
                </a>
              ) : (
                app.isPending && <Skeleton className="mt-1.5 h-4 w-52" />
              )}
            </div>
            {app.data && (
              <DeployDialog
                app={app.data}
                trigger={open => (
                  <Button look="primary" onClick={open}>
                    <Rocket aria-hidden="true" size={14} /> Deploy
                  </Button>
                )}
              />
            )}
          </div>
          <Tabs
            label={`${name} pages`}
            tabs={[
              { name: 'Overview', to: '/apps/$app', params, exact: true },
              { name: 'Deployments', to: '/apps/$app/deployments', params },
              { name: 'Logs', to: '/apps/$app/logs', params },
              { name: 'Files', to: '/apps/$app/files', params },
              { name: 'Terminal', to: '/apps/$app/terminal', params },
              { name: 'Jobs', to: '/apps/$app/jobs', params },
              { name: 'Metrics', to: '/apps/$app/metrics', params },
              { name: 'Scale', to: '/apps/$app/scale', params },
              { name: 'Environment', to: '/apps/$app/environment', params },
              { name: 'Network', to: '/apps/$app/network', params },
              { name: 'Volumes', to: '/apps/$app/volumes', params },
              { name: 'Settings', to: '/apps/$app/settings', params },
            ]}
          />
        </div>
      </header>
      <div className="mx-auto max-w-[1080px] px-4 py-6 md:px-8">
        <Loaded query={app}>{() => <Outlet />}</Loaded>
      </div>
    </div>
  )
}

/** The jobs of an app, and its runs: commands in separate VMs. */
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useApp } from '../use-app.ts'
import { JobList } from './job-list.tsx'
import { RunDialog } from './run-dialog.tsx'
import { RunList } from './run-list.tsx'

export function Jobs() {
  const app = useApp()
  const { run } = useSearch({ from: '/shell/apps/$app/jobs' })
  const navigate = useNavigate()
  const show = (next: { readonly run?: string }) =>
    navigate({ to: '/apps/$app/jobs', params: { app: app.name }, search: next, resetScroll: false })
  return (
    <div className="space-y-4">
      <JobList app={app.name} />
      <RunList app={app.name} onStarted={id => void show({ run: id })} />
      {run !== undefined && <RunDialog key={run} app={app.name} id={run} close={() => void show({})} />}
    </div>
  )
}

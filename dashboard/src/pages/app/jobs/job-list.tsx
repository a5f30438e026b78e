import type { Job, Run } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { CalendarClock, Pause, PencilLine, Play } from 'lucide-react'
import { api } from '../../../api/client.ts'
import { mostRuns, queries, refreshAll } from '../../../api/queries.ts'
import { attempt } from '../../../ui/action.tsx'
import { Mono } from '../../../ui/layout.tsx'
import { ListCard } from '../../../ui/listing.tsx'
import { AddButton, DestroyIcon, IconButton } from '../../../ui/row-actions.tsx'
import { Status } from '../../../ui/status.tsx'
import { Ago } from '../../../ui/time.tsx'
import { summaryOf } from './command.ts'
import { JobForm } from './job-form.tsx'

export function JobList({ app }: { readonly app: string }) {
  const jobs = useQuery(queries.jobs(app))
  const names = (jobs.data ?? []).map(({ name }) => name)
  return (
    <ListCard
      title="Jobs"
      lead="Commands that run on a schedule, each time in a separate virtual machine."
      create={
        <JobForm app={app} names={names} trigger={open => <AddButton text="New job" look="primary" onClick={open} />} />
      }
      query={jobs}
      filter={{
        list: 'jobs',
        find: 'Find a job',
        text: job => `${job.name} ${summaryOf(job.command)}`,
        status: job => (job.paused ? 'paused' : 'active'),
      }}
      nothing={{
        icon: CalendarClock,
        title: 'No jobs yet',
        text: 'A nightly report, a backup, a cleanup: a command and the times when it runs.',
      }}
      label="Jobs"
      keyOf={job => job.id}
      columns={[
        { title: 'Name', className: 'w-full max-w-0', cell: job => <What app={app} job={job} /> },
        {
          title: 'Schedule',
          wideOnly: true,
          className: 'whitespace-nowrap',
          cell: job => <Schedule job={job} />,
        },
        { title: 'Next', wideOnly: true, className: 'whitespace-nowrap', cell: job => <Next job={job} /> },
        { title: 'Last', wideOnly: true, cell: job => <Last app={app} job={job} /> },
      ]}
      actionsOf={job => <Actions app={app} job={job} />}
    />
  )
}

/** The cell with name and command of a job; on a narrow screen it also has the content of the other columns. */
function What({ app, job }: { readonly app: string; readonly job: Job }) {
  return (
    <div className="min-w-0">
      <p className="truncate font-medium">{job.name}</p>
      <Mono className="block truncate text-muted">{summaryOf(job.command)}</Mono>
      <div className="mt-1 space-y-1 md:hidden">
        <Schedule job={job} />
        <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
          <Next job={job} />
          <Last app={app} job={job} />
        </div>
      </div>
      {job.note && <p className="text-xs text-warn">{job.note}</p>}
    </div>
  )
}

const Schedule = ({ job }: { readonly job: Job }) => (
  <>
    <Mono>{job.schedule}</Mono> <span className="block text-xs wrap-anywhere text-muted">{job.time_zone}</span>
  </>
)

function Next({ job }: { readonly job: Job }) {
  if (job.paused) return <Status status="paused" />
  return (
    <span className="text-muted">
      <span className="text-xs md:hidden">Next </span>
      <Ago at={job.next_at} />
    </span>
  )
}

/**
 * The last run of a job. Queried per job, because a job that rarely runs may have no run among the app's newest runs.
 */
function Last({ app, job }: { readonly app: string; readonly job: Job }) {
  const newest = useQuery(queries.runs(app)).data
  const isOf = (run: Run) => run.job_name === job.name
  const listed = newest?.find(isOf)
  const older = useQuery({
    ...queries.lastRun(app, job.name),
    enabled: listed === undefined && newest?.length === mostRuns,
  })
  const run = listed ?? older.data
  if (!run) return <span className="whitespace-nowrap text-faint">never ran</span>
  return (
    <Link
      to="/apps/$app/jobs"
      params={{ app }}
      search={{ run: run.id }}
      resetScroll={false}
      aria-label={`Last run of ${job.name}: ${run.status.replaceAll('_', ' ')}`}
    >
      <Status status={run.status} />
    </Link>
  )
}

function Actions({ app, job }: { readonly app: string; readonly job: Job }) {
  const { name } = job
  const act = (work: () => Promise<unknown>, done: string) => async () => {
    await attempt(work, done)
    await refreshAll('jobs', 'runs')
  }
  const start = act(() => api.startJob({ app_name: app, job_name: name }), `${name} was started`)
  const toggle = act(() => setPaused(app, job, !job.paused), job.paused ? `${name} was resumed` : `${name} was paused`)
  return (
    <>
      <IconButton icon={Play} label={`Run ${name} now`} onClick={() => void start()} />
      {job.paused ? (
        <IconButton icon={CalendarClock} label={`Resume ${name}`} onClick={() => void toggle()} />
      ) : (
        <IconButton icon={Pause} label={`Pause ${name}`} onClick={() => void toggle()} />
      )}
      <JobForm
        app={app}
        job={job}
        trigger={open => <IconButton icon={PencilLine} label={`Edit ${name}`} onClick={open} />}
      />
      <DestroyIcon
        name={name}
        what="job"
        consequence="It does not run again. Its runs stay in the list, and an open run continues."
        send={async () => {
          await api.deleteJob({ app_name: app, job_name: name })
          await refreshAll('jobs')
        }}
      />
    </>
  )
}

function setPaused(app_name: string, job: Job, paused: boolean): Promise<Job> {
  const { name, schedule, command, time_zone, overlap, retries, timeout_seconds } = job
  const body = { schedule, command, time_zone, overlap, retries, timeout_seconds, paused }
  return api.putJob({ app_name, job_name: name, body })
}

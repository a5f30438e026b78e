import type { Run } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { CircleStop, Play, SquareTerminal } from 'lucide-react'
import { api } from '../../../api/client.ts'
import { mostRuns, queries, refreshAll } from '../../../api/queries.ts'
import { FormDialog } from '../../../ui/dialog.tsx'
import { NumberField, TextArea } from '../../../ui/form.tsx'
import { duration } from '../../../ui/format.ts'
import { Mono } from '../../../ui/layout.tsx'
import { ListCard } from '../../../ui/listing.tsx'
import { AddButton, IconButton } from '../../../ui/row-actions.tsx'
import { Status } from '../../../ui/status.tsx'
import { CancelRun } from './cancel-run.tsx'
import { ofScript, summaryOf } from './command.ts'
import { isOpen, nameOf, tookMs } from './run-words.ts'

interface Props {
  readonly app: string
  readonly onStarted: (id: string) => void
}

export function RunList({ app, onStarted }: Props) {
  const runs = useQuery(queries.runs(app))
  return (
    <ListCard
      title="Runs"
      lead={
        runs.data?.length === mostRuns
          ? `The newest ${mostRuns} runs. Use mote runs list for earlier ones.`
          : 'Runs of jobs, release commands and single commands in the last 30 days.'
      }
      actions={<Start app={app} onStarted={onStarted} />}
      query={runs}
      filter={{
        list: 'runs',
        find: 'Find a run',
        text: run => `${nameOf(run)} ${summaryOf(run.command ?? [])}`,
        status: run => run.status,
      }}
      nothing={{
        icon: SquareTerminal,
        title: 'No runs yet',
        text: 'A command runs once in a separate virtual machine, with the image and environment of the active deployment.',
      }}
      label="Runs"
      keyOf={run => run.id}
      columns={[
        { title: 'Run', className: 'w-full max-w-0', cell: run => <What app={app} run={run} /> },
        { title: 'Status', cell: run => <Status status={run.status} /> },
        { title: 'Exit code', right: true, wideOnly: true, cell: run => run.exit_code ?? '' },
        { title: 'Started', at: run => run.started_at ?? run.created_at },
        { title: 'Duration', wideOnly: true, className: 'whitespace-nowrap', cell: run => durationOf(run) },
      ]}
      actionsOf={run =>
        isOpen(run) && (
          <CancelRun
            app={app}
            run={run}
            trigger={open => <IconButton icon={CircleStop} label={`Cancel ${nameOf(run)}`} onClick={open} />}
          />
        )
      }
    />
  )
}

function durationOf(run: Run): string {
  const ms = tookMs(run)
  return ms === undefined ? '' : duration(ms)
}

function What({ app, run }: { readonly app: string; readonly run: Run }) {
  return (
    <div className="min-w-0">
      <Link
        to="/apps/$app/jobs"
        params={{ app }}
        search={{ run: run.id }}
        resetScroll={false}
        className="block w-fit max-w-full truncate font-medium hover:underline"
      >
        {nameOf(run)}
        {run.attempt > 1 && <span className="text-muted">, attempt {run.attempt}</span>}
      </Link>
      {run.command && <Mono className="block truncate text-muted">{summaryOf(run.command)}</Mono>}
    </div>
  )
}

function Start({ app, onStarted }: Props) {
  return (
    <FormDialog
      title="Run a command"
      lead="In a new virtual machine with the image and environment of the active deployment, without its volumes."
      submit="Run"
      trigger={open => <AddButton text="Run a command" icon={Play} onClick={open} />}
      send={async values => {
        const command = ofScript(values.text('command').replaceAll('\r\n', '\n'))
        const body = { command, timeout_seconds: values.number('timeout_seconds') }
        const { id } = await api.startRun({ app_name: app, body })
        await refreshAll('runs')
        onStarted(id)
      }}
      fields={
        <>
          <TextArea
            label="Shell script"
            name="command"
            rows={4}
            required
            autoFocus
            maxLength={8192}
            spellCheck={false}
            placeholder="python manage.py createsuperuser --noinput"
          />
          <NumberField
            label="Time limit, seconds"
            name="timeout_seconds"
            min={1}
            max={86_400}
            defaultValue={3600}
            hint="The run is stopped after this time."
          />
        </>
      }
    />
  )
}

import type { Job, PutJobRequest } from '@mote/client'
import { type ReactNode, useId, useState } from 'react'
import { api } from '../../../api/client.ts'
import { refreshAll } from '../../../api/queries.ts'
import { FormDialog } from '../../../ui/dialog.tsx'
import { Choice, Field, NameField, NumberField, TextArea, type Values } from '../../../ui/form.tsx'
import { commandKinds, commandOf, kindOf, textOf } from './command.ts'

const overlaps = {
  skip: 'Skip the new run',
  allow: 'Run both',
  replace: 'Cancel the earlier run',
} as const satisfies Record<Job['overlap'], string>

const kindNames = { script: 'Shell script', program: 'Program and arguments' } as const

/**
 * Creates or edits a job. @param names names of existing jobs; the form refuses them for a new job, because the API
 * would overwrite the existing one
 */
export function JobForm({
  app,
  job,
  names = [],
  trigger,
}: {
  readonly app: string
  readonly job?: Job
  readonly names?: readonly string[]
  readonly trigger: (open: () => void) => ReactNode
}) {
  return (
    <FormDialog
      title={job ? `Edit ${job.name}` : 'New job'}
      submit={job ? 'Save' : 'Create job'}
      wide
      trigger={trigger}
      send={async values => {
        const job_name = job?.name ?? values.text('job_name')
        if (!job && names.includes(job_name))
          throw new Error(`${job_name} exists already. Edit it, or choose another name.`)
        await api.putJob({ app_name: app, job_name, body: bodyOf(values, job) })
        await refreshAll('jobs')
      }}
      fields={
        <>
          {!job && (
            <NameField
              name="job_name"
              maxLength={63}
              placeholder="nightly-report"
              hint="Lowercase letters, digits and dashes."
            />
          )}
          <div className="grid gap-3 sm:grid-cols-2">
            <Field
              label="Schedule"
              name="schedule"
              mono
              required
              maxLength={100}
              defaultValue={job?.schedule}
              placeholder="30 2 * * *"
              autoComplete="off"
              spellCheck={false}
              hint="Minute, hour, day, month, weekday; or @hourly, @daily, @weekly, @monthly."
            />
            <ZoneField value={job?.time_zone} />
          </div>
          <CommandFields command={job?.command} />
          <div className="grid gap-3 sm:grid-cols-3">
            <Choice label="If an earlier run is active" name="overlap" defaultValue={job?.overlap ?? 'skip'}>
              {Object.entries(overlaps).map(([value, text]) => (
                <option key={value} value={value}>
                  {text}
                </option>
              ))}
            </Choice>
            <NumberField
              label="Retries"
              name="retries"
              min={0}
              max={10}
              defaultValue={job?.retries ?? 0}
              hint="How often a failed run is repeated."
            />
            <NumberField
              label="Time limit, seconds"
              name="timeout_seconds"
              min={1}
              max={86_400}
              defaultValue={job?.timeout_seconds ?? 3600}
            />
          </div>
        </>
      }
    />
  )
}

const bodyOf = (values: Values, job: Job | undefined): PutJobRequest => ({
  schedule: values.text('schedule').trim(),
  time_zone: values.optional('time_zone'),
  command: commandOf(values.text('kind'), values.text('command'), job?.command),
  overlap: overlapOf(values.text('overlap')),
  retries: values.number('retries'),
  timeout_seconds: values.number('timeout_seconds'),
  paused: job?.paused,
})

const overlapOf = (text: string): Job['overlap'] => (text === 'allow' || text === 'replace' ? text : 'skip')

function ZoneField({ value = 'UTC' }: { readonly value?: string | undefined }) {
  const list = useId()
  return (
    <>
      <Field
        label="Time zone"
        name="time_zone"
        list={list}
        maxLength={64}
        defaultValue={value}
        autoComplete="off"
        spellCheck={false}
        hint={`Yours is ${Intl.DateTimeFormat().resolvedOptions().timeZone}.`}
      />
      <datalist id={list}>
        {Intl.supportedValuesOf('timeZone').map(zone => (
          <option key={zone} value={zone} />
        ))}
      </datalist>
    </>
  )
}

function CommandFields({ command }: { readonly command: Job['command'] | undefined }) {
  const [kind, setKind] = useState<string>(command ? kindOf(command) : 'script')
  const text = command ? textOf(command) : ''
  return (
    <>
      <Choice label="Command" name="kind" value={kind} onChange={event => setKind(event.target.value)}>
        {commandKinds.map(one => (
          <option key={one} value={one}>
            {kindNames[one]}
          </option>
        ))}
      </Choice>
      <TextArea
        label={kind === 'script' ? 'Script' : 'Program'}
        name="command"
        rows={Math.min(Math.max(text.split('\n').length, 3), 12)}
        required
        defaultValue={text}
        placeholder={kind === 'script' ? 'python report.py && echo done' : 'python\nreport.py'}
        spellCheck={false}
        hint={kind === 'script' ? 'Runs with /bin/sh.' : 'One argument in each line, without quotes.'}
      />
    </>
  )
}

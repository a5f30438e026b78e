import type { Static } from 'typebox'
import { bool, dateTime, list, maybe, nullable, oneOf, rawText, resource, text, uint32, uuid } from '../http/types.ts'

const overlaps = ['skip', 'allow', 'replace'] as const
export const jobDefaults = { timeZone: 'UTC', overlap: 'skip', retries: 0, timeoutSeconds: 3600 } as const
const day = 86_400

const overlapText =
  'What happens at a time when an earlier run has not ended. `skip`: nothing. `allow`: both run. `replace`: the earlier one is cancelled.'
const command = (description: string) =>
  list(rawText({ minLength: 1, maxLength: 8192, examples: ['python'] }), {
    minItems: 1,
    maxItems: 256,
    description,
    examples: [['python', 'report.py']],
  })
const schedule = text({
  minLength: 1,
  maxLength: 100,
  description:
    'Minute, hour, day of month, month and day of week, as in crontab; or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.',
  examples: ['30 2 * * 1-5'],
})

export const PutJobRequest = resource(
  'PutJobRequest',
  {
    schedule,
    command: command('The program and its arguments, without a shell.'),
    time_zone: maybe(
      text({
        maxLength: 64,
        description: 'IANA time zone of the schedule. Default: UTC.',
        examples: ['Europe/Berlin'],
      }),
    ),
    overlap: maybe(oneOf(overlaps, { description: `${overlapText} Default: \`skip\`.` })),
    retries: maybe(
      uint32({ maximum: 10, description: 'How often a run that failed is repeated. Default: 0.', examples: [2] }),
    ),
    timeout_seconds: maybe(
      uint32({
        minimum: 1,
        maximum: day,
        description: `Seconds after which a run is ended. Default: ${jobDefaults.timeoutSeconds}.`,
        examples: [600],
      }),
    ),
    paused: maybe(bool({ description: 'Whether the schedule is suspended. Default: false.', examples: [false] })),
  },
  { description: 'A command and its schedule.' },
)

export const Job = resource(
  'Job',
  {
    id: uuid({ description: 'Identifies the job.' }),
    name: text({ description: 'Name of the job; unique in its app.', examples: ['nightly-report'] }),
    schedule,
    time_zone: text({ description: 'IANA time zone of the schedule.', examples: ['Europe/Berlin'] }),
    command: command('The program and its arguments.'),
    overlap: oneOf(overlaps, { description: overlapText }),
    retries: uint32({ description: 'How often a run that failed is repeated.', examples: [2] }),
    timeout_seconds: uint32({ description: 'Seconds after which a run is ended.', examples: [600] }),
    paused: bool({ description: 'Whether the schedule is suspended.' }),
    next_at: nullable(dateTime({ description: 'The next time; null while paused, or if there is none.' })),
    note: nullable(
      text({
        description: 'Why the last time had no run; null if it had one.',
        examples: ['Skipped: the previous run had not ended.'],
      }),
    ),
    created_at: dateTime({ description: 'When it was created.' }),
    updated_at: dateTime({ description: 'When it was last changed.' }),
  },
  { description: 'A command that runs by a schedule.' },
)
export type Job = Static<typeof Job>

export const StartedJob = resource(
  'StartedJob',
  { run_id: uuid({ description: 'The run, as in `GET /v1/apps/{app_name}/runs/{run_id}`.' }) },
  { description: 'A run of a job that was started by hand.' },
)

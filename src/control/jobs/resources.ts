import type { Static } from 'typebox'
import { bool, dateTime, list, maybe, nullable, oneOf, rawText, resource, text, uint32, uuid } from '../http/types.ts'

const overlaps = ['skip', 'allow', 'replace'] as const
export const jobDefaults = { timeZone: 'UTC', overlap: 'skip', retries: 0, timeoutSeconds: 3600 } as const
const day = 86_400

const overlapText =
  'What happens when a run is due and an earlier one has not ended. `skip`: no run starts. `allow`: both run. `replace`: the earlier run is cancelled.'
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
    'Cron schedule: minute, hour, day of month, month and day of week, as in crontab, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.',
  examples: ['30 2 * * 1-5'],
})

export const PutJobRequest = resource(
  'PutJobRequest',
  {
    schedule,
    command: command('Program and arguments, run without a shell.'),
    time_zone: maybe(
      text({
        maxLength: 64,
        description: 'IANA time zone of the schedule. Default: UTC.',
        examples: ['Europe/Berlin'],
      }),
    ),
    overlap: maybe(oneOf(overlaps, { description: `${overlapText} Default: \`skip\`.` })),
    retries: maybe(
      uint32({ maximum: 10, description: 'How often a failed run is retried. Default: 0.', examples: [2] }),
    ),
    timeout_seconds: maybe(
      uint32({
        minimum: 1,
        maximum: day,
        description: `Time limit of a run in seconds; a run that exceeds it is stopped. Default: ${jobDefaults.timeoutSeconds}.`,
        examples: [600],
      }),
    ),
    paused: maybe(bool({ description: 'Whether the schedule is paused. Default: false.', examples: [false] })),
  },
  { description: 'A command and its schedule.' },
)

export const Job = resource(
  'Job',
  {
    id: uuid({ description: 'Id of the job.' }),
    name: text({ description: 'Name of the job; unique in the app.', examples: ['nightly-report'] }),
    schedule,
    time_zone: text({ description: 'IANA time zone of the schedule.', examples: ['Europe/Berlin'] }),
    command: command('Program and arguments, run without a shell.'),
    overlap: oneOf(overlaps, { description: overlapText }),
    retries: uint32({ description: 'How often a failed run is retried.', examples: [2] }),
    timeout_seconds: uint32({
      description: 'Time limit of a run in seconds; a run that exceeds it is stopped.',
      examples: [600],
    }),
    paused: bool({ description: 'Whether the schedule is paused.' }),
    next_at: nullable(
      dateTime({
        description: 'When the next run is due; null while the job is paused, or if the schedule has no further time.',
      }),
    ),
    note: nullable(
      text({
        description: 'Why no run started when the job was last due; null if one did.',
        examples: ['Skipped: the previous run had not ended.'],
      }),
    ),
    created_at: dateTime({ description: 'When the job was created.' }),
    updated_at: dateTime({ description: 'When the job was last changed.' }),
  },
  { description: 'A command that runs on a schedule.' },
)
export type Job = Static<typeof Job>

export const StartedJob = resource(
  'StartedJob',
  { run_id: uuid({ description: 'Id of the run, for `GET /v1/apps/{app_name}/runs/{run_id}`.' }) },
  { description: 'A run of a job that was started by a request.' },
)

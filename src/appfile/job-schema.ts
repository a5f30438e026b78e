/** The part of the schema of `mote.toml` for jobs. */
import { Type } from 'typebox'
import { maybe, table } from './canary-schema.ts'

const Job = table(
  {
    schedule: Type.String({
      minLength: 1,
      maxLength: 100,
      description:
        'Cron schedule: minute, hour, day of month, month and day of week, as in crontab, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.',
      examples: ['30 2 * * *'],
    }),
    command: Type.Array(Type.String({ minLength: 1, maxLength: 8192 }), {
      minItems: 1,
      maxItems: 256,
      description: 'Program and arguments, run without a shell.',
      examples: [['python', 'report.py']],
    }),
    time_zone: maybe(
      Type.String({
        minLength: 1,
        maxLength: 64,
        default: 'UTC',
        description: 'IANA time zone of the schedule.',
        examples: ['Europe/Berlin'],
      }),
    ),
    overlap: maybe(
      Type.Unsafe<'skip' | 'allow' | 'replace'>({
        type: 'string',
        enum: ['skip', 'allow', 'replace'],
        default: 'skip',
        description:
          'What happens when a run is due and an earlier one has not ended. `skip`: no run starts. `allow`: both run. `replace`: the earlier run is cancelled.',
      }),
    ),
    retries: maybe(
      Type.Integer({ minimum: 0, maximum: 10, default: 0, description: 'How often a failed run is retried.' }),
    ),
    timeout_seconds: maybe(
      Type.Integer({
        minimum: 1,
        maximum: 86_400,
        default: 3600,
        description: 'Time limit of a run in seconds; a run that exceeds it is stopped.',
      }),
    ),
  },
  'A job is a command that runs on a schedule, each time in a separate VM, with the image and environment of the active deployment.',
)

export const Jobs = Type.Record(Type.String({ pattern: '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$' }), Job, {
  additionalProperties: false,
  maxProperties: 50,
  'x-mote-names': 'lower-case letters, digits and dashes, starting and ending with a letter or a digit',
  description:
    'Commands that run on a schedule. If this table is present, jobs that are not in the file are deleted; without it, the jobs of the app stay unchanged.',
})

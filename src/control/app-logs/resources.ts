import { type Static, Type } from 'typebox'
import { dateTime, int64, list, nullable, oneOf, resource, text, uint32, uuid } from '../http/types.ts'

export const logStreams = ['stdout', 'stderr', 'system', 'build'] as const
export const logSources = ['app', 'platform'] as const

export const LogLine = resource(
  'LogLine',
  {
    at: dateTime({
      description: 'When the host read the line, to the microsecond.',
      examples: ['2026-03-14T09:26:53.589793Z'],
    }),
    source: oneOf(logSources, {
      description: 'Who wrote the line: the program (`app`), or the platform about its VM or its build (`platform`).',
    }),
    stream: oneOf(logStreams, {
      description: 'Source of the line: the program, the platform (`system`), or the build of the image (`build`).',
    }),
    line: text({
      description: 'The text, without its line break, at most 16 KiB.',
      examples: ['listening on port 8080'],
    }),
    deployment_id: uuid({ description: 'The deployment of the VM.' }),
    vm_id: uuid({ description: 'The VM that wrote the line.' }),
  },
  { description: 'One line of a log.' },
)

export const LogPage = resource(
  'LogPage',
  {
    lines: list(LogLine, { description: 'The lines, in the requested order.' }),
    next_cursor: nullable(text({ examples: ['MTc3MzQ3OTIxMzU4OTc5My4'] }), {
      description:
        'Goes on in the same direction. Null: there are no more lines. With `oldest` and without `until` there is always one, because lines may follow.',
    }),
    prev_cursor: nullable(text({ examples: ['MTc3MzQ3OTIxMzU4OTc5My4'] }), {
      description: 'Goes back from the first line, with the other `order`. Null: the page is empty.',
    }),
    searched_from: dateTime({ description: 'Older lines were not searched: `since`, or the end of the retention.' }),
    retention_days: uint32({ description: 'Lines older than this are removed.', examples: [7] }),
    unavailable_vms: int64({
      description: 'Number of VMs whose lines are missing, because their host does not answer.',
      examples: [0],
    }),
  },
  { description: 'Part of the log of an app.' },
)
export type LogPage = Static<typeof LogPage>

const when = (description: string) => text({ minLength: 1, maxLength: 40, description, examples: ['1h'] })

/** Query parameters that select log lines. */
export const filterFields = {
  since: Type.Optional(
    when('Only later lines: a time (RFC 3339), or how long ago, such as `30s`, `15m`, `1h`, `7d` or `1w`.'),
  ),
  text: Type.Optional(
    text({
      minLength: 1,
      maxLength: 200,
      description: 'Only lines that contain this text, in upper or lower case.',
      examples: ['timeout'],
    }),
  ),
  replica: Type.Optional(
    text({
      pattern: '^([1-9][0-9]{0,2}|[0-9a-f-]{6,36})$',
      'x-mote-pattern': 'a number from 1 to 999, or the last 6 to 36 characters of the id of a VM',
      description:
        'Only lines of one VM: its id, the last characters of it (6 or more), or its number among the replicas that run, the oldest is 1.',
      examples: ['1'],
    }),
  ),
  deployment: Type.Optional(
    text({
      minLength: 1,
      maxLength: 64,
      description: 'Only lines of one deployment, also of a deleted one: its job id or UUID.',
      examples: ['job-3f6d0c4f2a1097e0'],
    }),
  ),
  source: Type.Optional(
    oneOf(logSources, { description: 'Only lines of the program, or only those of the platform.' }),
  ),
  stream: Type.Optional(oneOf(logStreams, { description: 'Only lines of one stream.' })),
}

const until = { until: Type.Optional(when('Only earlier lines, as in `since`.')) }

export const LogSearchQuery = Type.Object({
  ...filterFields,
  ...until,
  order: Type.Optional(
    oneOf(['newest', 'oldest'], {
      default: 'newest',
      description:
        'Which lines come first. `oldest` without `until` leaves out the last second, so that no line is missed when the next page is read.',
    }),
  ),
  limit: Type.Optional(
    uint32({ minimum: 1, maximum: 1000, default: 100, description: 'Number of lines.', examples: [100] }),
  ),
  cursor: Type.Optional(
    text({
      minLength: 1,
      maxLength: 120,
      examples: ['MTc3MzQ3OTIxMzU4OTc5My4'],
      description: 'Where to go on: a cursor of another page.',
    }),
  ),
})
export type LogSearchQuery = Static<typeof LogSearchQuery>

export const LogDownloadQuery = Type.Object({
  ...filterFields,
  ...until,
  format: Type.Optional(
    oneOf(['text', 'jsonl'], {
      default: 'text',
      description: '`text`: time, VM, stream and line. `jsonl`: one JSON object a line.',
    }),
  ),
})
export type LogDownloadQuery = Static<typeof LogDownloadQuery>

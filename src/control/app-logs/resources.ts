import { type Static, Type } from 'typebox'
import { dateTime, int64, list, nullable, oneOf, resource, text, uint32, uuid } from '../http/types.ts'

export const logStreams = ['stdout', 'stderr', 'system', 'build'] as const
export const logSources = ['app', 'platform'] as const

export const LogLine = resource(
  'LogLine',
  {
    at: dateTime({
      description: 'When the host received the line, to the microsecond.',
      examples: ['2026-03-14T09:26:53.589793Z'],
    }),
    source: oneOf(logSources, {
      description:
        'Who wrote the line: `app` for the program in the VM, `platform` for messages of the platform about the VM or the build.',
    }),
    stream: oneOf(logStreams, {
      description:
        'Stream of the line: `stdout` and `stderr` of the program, `system` for messages of the platform, `build` for the image build.',
    }),
    line: text({
      description: 'Text of the line without its line break, at most 16 KiB.',
      examples: ['listening on port 8080'],
    }),
    deployment_id: uuid({ description: 'Id of the deployment that the VM belongs to.' }),
    vm_id: uuid({ description: 'Id of the VM that wrote the line.' }),
  },
  { description: 'One log line of an app.' },
)

export const LogPage = resource(
  'LogPage',
  {
    lines: list(LogLine, { description: 'Log lines in the requested order.' }),
    next_cursor: nullable(text({ examples: ['MTc3MzQ3OTIxMzU4OTc5My4'] }), {
      description:
        'Cursor of the next page, in the same order; null if there are no more lines. Never null with `order=oldest` and without `until`, because lines may still be written.',
    }),
    prev_cursor: nullable(text({ examples: ['MTc3MzQ3OTIxMzU4OTc5My4'] }), {
      description:
        'Cursor that reads back from the first line of this page; use it with the opposite `order`. Null if the page is empty.',
    }),
    searched_from: dateTime({
      description: 'Start of the searched period: `since`, or the time before which lines are no longer retained.',
    }),
    retention_days: uint32({ description: 'Days after which lines are deleted.', examples: [7] }),
    unavailable_vms: int64({
      description: 'Number of VMs whose lines are missing from the page because their host does not respond.',
      examples: [0],
    }),
  },
  { description: "Page of an app's log." },
)
export type LogPage = Static<typeof LogPage>

const when = (description: string) => text({ minLength: 1, maxLength: 40, description, examples: ['1h'] })

/** Query parameters that select log lines. */
export const filterFields = {
  since: Type.Optional(
    when(
      'Returns only lines from this time on: an RFC 3339 timestamp, or an age such as `30s`, `15m`, `1h`, `7d` or `1w`.',
    ),
  ),
  text: Type.Optional(
    text({
      minLength: 1,
      maxLength: 200,
      description: 'Returns only lines that contain this text, ignoring case.',
      examples: ['timeout'],
    }),
  ),
  replica: Type.Optional(
    text({
      pattern: '^([1-9][0-9]{0,2}|[0-9a-f-]{6,36})$',
      'x-mote-pattern': 'a number from 1 to 999, or the last 6 to 36 characters of the id of a VM',
      description:
        'Returns only lines of one VM. The value is the id of the VM, the last 6 or more characters of that id, or the number of a running replica. The oldest running replica has the number 1.',
      examples: ['1'],
    }),
  ),
  deployment: Type.Optional(
    text({
      minLength: 1,
      maxLength: 64,
      description: 'Returns only lines of one deployment, which may be deleted: its job id or UUID.',
      examples: ['job-3f6d0c4f2a1097e0'],
    }),
  ),
  source: Type.Optional(
    oneOf(logSources, {
      description: 'Returns only lines of the program (`app`), or only lines of the platform (`platform`).',
    }),
  ),
  stream: Type.Optional(oneOf(logStreams, { description: 'Returns only lines of this stream.' })),
}

const until = { until: Type.Optional(when('Returns only lines before this time, given in the same form as `since`.')) }

export const LogSearchQuery = Type.Object({
  ...filterFields,
  ...until,
  order: Type.Optional(
    oneOf(['newest', 'oldest'], {
      default: 'newest',
      description:
        'Which lines come first. With `oldest` and without `until`, lines of the last second are left out, so that the next page misses no line that arrives late.',
    }),
  ),
  limit: Type.Optional(
    uint32({ minimum: 1, maximum: 1000, default: 100, description: 'Maximum number of lines.', examples: [100] }),
  ),
  cursor: Type.Optional(
    text({
      minLength: 1,
      maxLength: 120,
      examples: ['MTc3MzQ3OTIxMzU4OTc5My4'],
      description: 'Position to continue from: `next_cursor` or `prev_cursor` of another page.',
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
      description:
        'Format of the file. `text`: each line has time, VM, stream and text. `jsonl`: one JSON object per line.',
    }),
  ),
})
export type LogDownloadQuery = Static<typeof LogDownloadQuery>

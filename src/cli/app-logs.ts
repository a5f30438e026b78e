/** Prints the log of an app: past lines, and with `--follow` new ones. */
import type { LogLine } from '../client/index.ts'
import { pc } from '../programs/colours.ts'
import { type Answer, type Call, oneOf, text, wholeNumber } from './verb.ts'
import { err, out } from './terminal.ts'

export const appLogFlags = [
  ['-f, --follow', 'follow the log until Ctrl-C, including new deployments'],
  ['-n, --tail <lines>', 'number of past lines, at most 10000 (default 100; with --since and -f, all)'],
  ['--since <time>', 'only later lines: 15m, 1h, 7d or a time such as 2026-03-14T09:26:53Z'],
  ['--until <time>', 'only earlier lines, as in --since'],
  ['-g, --grep <text>', 'only lines that contain this text, ignoring case'],
  ['-r, --replica <id>', 'only lines of one VM: its id, the last 6 characters of it, or its number'],
  ['-d, --deployment <id>', 'only lines of one deployment'],
  ['--source <source>', 'only lines of the program (app) or of the platform (platform)'],
] as const

const mostLines = 10_000
const mostAtOnce = 1000

interface Filter {
  readonly since?: string
  readonly text?: string
  readonly replica?: string
  readonly deployment?: string
  readonly source?: 'app' | 'platform'
}

/** Prints the log lines that the command's flags select. @throws Interrupted on Ctrl-C */
export async function showLogs(call: Call, app_name: string): Promise<Answer> {
  const { flags } = call
  const tail = wholeNumber(flags, 'tail')
  if (tail !== undefined && (tail < 0 || tail > mostLines)) throw new Error(`--tail must be 0 to ${mostLines}`)
  const source = oneOf(['app', 'platform'], text(flags, 'source'), 'source')
  const given = { since: text(flags, 'since'), text: text(flags, 'grep'), replica: text(flags, 'replica'), source }
  const all = { ...given, deployment: text(flags, 'deployment') }
  const filter: Filter = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
  const until = text(flags, 'until')
  if (!flags.follow) return past(call, app_name, { ...filter, ...(until === undefined ? {} : { until }) }, tail ?? 100)
  if (until !== undefined) throw new Error('--until cannot be used with --follow')
  return follow(call, app_name, { ...filter, ...(tail === undefined ? {} : { tail }) })
}

async function past(
  { client, flags, signal }: Call,
  app_name: string,
  filter: Filter & { readonly until?: string },
  tail: number,
): Promise<Answer> {
  const lines: LogLine[] = []
  let cursor: string | undefined
  for (;;) {
    const limit = Math.max(1, Math.min(mostAtOnce, tail - lines.length))
    const query = { ...filter, limit, ...(cursor === undefined ? {} : { cursor }) }
    const page = await client.searchAppLogs({ app_name, query }, { signal })
    lines.push(...page.lines)
    cursor = page.next_cursor ?? undefined
    if (cursor !== undefined && lines.length < tail) continue
    for (const line of lines.slice(0, tail).reverse()) print(line, flags.json === true)
    if (page.unavailable_vms > 0)
      err(`Lines of ${page.unavailable_vms} VMs are missing, because their host does not respond.\n`)
    if (lines.length === 0) err(`${noLines(filter)} Lines older than ${page.retention_days} days are removed.\n`)
    return { json: undefined, text: '' }
  }
}

const noLines = (filter: Filter) =>
  Object.keys(filter).length === 0
    ? 'The app has no log lines.'
    : 'No log line matches. Try without --grep, --replica or --source, or with an earlier --since.'

async function follow(
  { client, flags, signal }: Call,
  app_name: string,
  query: Filter & { readonly tail?: number },
): Promise<Answer> {
  for await (const { event, data } of client.streamAppLogs({ app_name, query }, { signal })) {
    if (event === 'log') print(data, flags.json === true)
    if (event === 'gap') err('(lines were lost here)\n')
  }
  signal.throwIfAborted()
  return { json: undefined, text: '' }
}

function print(line: LogLine, isJson: boolean): void {
  out(`${isJson ? JSON.stringify(line) : logRow(line)}\n`)
}

const colors = [pc.cyan, pc.yellow, pc.green, pc.magenta, pc.blue]

/** Formats a log line: local time, the end of the VM's id in a color that depends on the id, and the text. */
export function logRow({ at, vm_id, source, stream, line }: LogLine): string {
  const vm = vm_id.slice(-6)
  const color = colors[[...vm].reduce((sum, char) => sum + char.charCodeAt(0), 0) % colors.length] ?? pc.cyan
  const words = source === 'platform' && stream === 'system' ? pc.dim(`* ${line}`) : line
  return `${pc.dim(localTime(new Date(at)))} ${color(vm)} ${words}`
}

const two = (value: number) => String(value).padStart(2, '0')

/** Formats a time in the local time zone, as in `2026-03-14 10:26:53.589`. */
export const localTime = (at: Date): string =>
  `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, '0')}`

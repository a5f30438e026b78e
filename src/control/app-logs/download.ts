/** Downloads the log of an app as a file. */
import type { LogKey } from '../../contract/agent.ts'
import type { LogFilter } from './filter.ts'
import { type AppLine, type ReadDeps, readLines } from './read.ts'
import type { LogDownloadQuery } from './resources.ts'
import { lineView, timeOf } from './view.ts'

const mostBytes = 64 * 2 ** 20
type Format = NonNullable<LogDownloadQuery['format']>

const formats: Readonly<Record<Format, { line: (line: AppLine) => string; note: (text: string) => string }>> = {
  text: {
    line: ({ atUs, vmId, stream, line }) => `${timeOf(atUs)} ${vmId} ${stream} ${line}\n`,
    note: text => `# ${text}\n`,
  },
  jsonl: { line: line => `${JSON.stringify(lineView(line))}\n`, note: text => `${JSON.stringify({ note: text })}\n` },
}

export async function* logFile(
  deps: ReadDeps,
  filter: LogFilter,
  format: Format,
  signal: AbortSignal,
  most = mostBytes,
): AsyncGenerator<Uint8Array> {
  const { line, note } = formats[format]
  const unavailable = new Set<string>()
  let bytes = 0
  let from: LogKey | undefined
  do {
    const page = await readLines(deps, filter, { order: 'oldest', limit: 1000, from }, signal)
    for (const vmId of page.unavailable) unavailable.add(vmId)
    const text = Buffer.from(page.lines.map(line).join(''))
    bytes += text.length
    if (text.length > 0) yield text
    from = page.reached ?? undefined
    if (from && bytes > most) {
      yield Buffer.from(
        note(
          `The file ends here because it reached its maximum size. For later lines, use since=${timeOf(from.atUs)}.`,
        ),
      )
      return
    }
  } while (from)
  if (unavailable.size > 0)
    yield Buffer.from(note(`Lines of ${unavailable.size} VMs are missing, because their host does not respond.`))
}

import type { LogLine, LogStream, VmLogsAnswer, VmLogsRequest } from '../../contract/agent.ts'
import { encodeLogPage } from '../../contract/log-page.ts'

/**
 * A log line with its position in the guest's numbering of lines. `boot` and `seq` are 0 for lines that the host has
 * written.
 */
export interface StoredLine extends LogLine {
  readonly boot: number
  readonly seq: number
}

const letters = { stdout: 'o', stderr: 'e', system: 's', build: 'b' } as const satisfies Record<LogStream, string>
const streams = new Map<string, LogStream>([
  ['o', 'stdout'],
  ['e', 'stderr'],
  ['s', 'system'],
  ['b', 'build'],
])

/** Formats a line for the log file: `<atUs> <stream> <boot> <seq> <text>\n`. */
export function formatLine({ atUs, stream, boot, seq, line }: StoredLine): string {
  return `${atUs} ${letters[stream]} ${boot} ${seq} ${line}\n`
}

const fields = /^(\d+) ([oesb]) (\d+) (\d+) /

/** Parses a line of the log file. Returns undefined for a partial line, which a crash may leave. */
export function parseLine(text: string): StoredLine | undefined {
  const match = fields.exec(text)
  const stream = streams.get(match?.[2] ?? '')
  if (match === null || stream === undefined) return undefined
  const [fore, atUs, , boot, seq] = match
  return { atUs: Number(atUs), stream, boot: Number(boot), seq: Number(seq), line: text.slice(fore.length) }
}

export function toLogLine({ atUs, stream, line }: StoredLine): LogLine {
  return { atUs, stream, line }
}

/**
 * Limit on the size of the lines in one response. A line has at most 16 KiB, and JSON escaping may take six bytes per
 * character, so a response stays below the 1 MiB of a NATS message.
 */
export const answerBytes = 512 * 1024

/** Returns the response to a `vm.logs` request: as many lines as fit into a message, oldest first. */
export const logsAnswer = ({ vmId, events }: VmLogsRequest, lines: readonly StoredLine[]): VmLogsAnswer | Uint8Array =>
  events ? encodeLogPage(lines, { vmId, deploymentId: events.deploymentId }, answerBytes) : firstThatFit(lines)

export function firstThatFit(lines: readonly StoredLine[]): VmLogsAnswer {
  let bytes = 0
  const fits = lines.findIndex(({ line }) => {
    const full = bytes > answerBytes
    bytes += Buffer.byteLength(JSON.stringify(line)) + 60
    return full
  })
  return fits === -1 ? { lines: lines.map(toLogLine) } : { lines: lines.slice(0, fits).map(toLogLine), more: true }
}

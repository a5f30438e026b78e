/**
 * Binary encoding of a page of a VM's log: one line of JSON (`LogPageHead`), then the log lines as server-sent events
 * (WHATWG HTML 9.2), ready for the client. Programs that forward a page do not parse the events
 * (docs/decisions/0003-bus.md).
 */
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import type { LogLine, LogStream } from './agent.ts'

export const LogPageHead = Type.Object({
  /** Time of the last line in the page, in microseconds since the epoch; 0 if the page is empty. */
  lastUs: Type.Integer(),
  /** Whether more lines follow that did not fit into a bus message. */
  more: Type.Boolean(),
})
export type LogPageHead = Static<typeof LogPageHead>

export interface LogOwner {
  readonly vmId: string
  readonly deploymentId: string
}

/**
 * Maximum size of one log line as an event, in bytes. A line has at most 16 KiB, and JSON may escape each byte as six
 * characters; the rest is names, time and ids.
 */
const longestEvent = 6 * 16_384 + 1024
/** Number of bytes reserved for the head, which has at most 47 characters. */
const headRoom = 64
const lineBreak = 0x0a

/** Who writes each output stream of a VM's log: the app, or the platform with notes about the app's VM. */
export const logSource = {
  stdout: 'app',
  stderr: 'app',
  system: 'platform',
  build: 'platform',
} as const satisfies Record<LogStream, string>

/** Encodes one log line as an event `log`, with its time as the id. Only the text of the line can need JSON escapes. */
export const logEvent = (line: LogLine, owner: LogOwner): string =>
  `${before(line)}${JSON.stringify(line.line)}${after(owner)}`

const before = ({ atUs, stream }: LogLine) =>
  `id: ${atUs}\nevent: log\ndata: {"at":"${isoTime(atUs)}","source":"${logSource[stream]}","stream":"${stream}","line":`
const after = ({ vmId, deploymentId }: LogOwner) => `,"deployment_id":"${deploymentId}","vm_id":"${vmId}"}\n\n`

/**
 * Encodes a page of lines directly into one buffer: joining the lines as text first took twice as long as this.
 * @param mostBytes approximate limit of the page; it gets as many lines from the start as fit
 */
export function encodeLogPage(lines: readonly LogLine[], owner: LogOwner, mostBytes: number): Uint8Array {
  const page = Buffer.allocUnsafeSlow(headRoom + Math.min(mostBytes, lines.length * longestEvent) + longestEvent)
  const end = after(owner)
  let bytes = headRoom
  let lastUs = 0
  for (const line of lines) {
    if (bytes > mostBytes) return withHead(page.subarray(0, bytes), { lastUs, more: true })
    bytes += page.write(before(line), bytes, 'latin1')
    bytes += page.write(JSON.stringify(line.line), bytes)
    bytes += page.write(end, bytes, 'latin1')
    lastUs = line.atUs
  }
  return withHead(page.subarray(0, bytes), { lastUs, more: false })
}

/** Writes the head into the reserved bytes, directly before the events. */
function withHead(page: Buffer, head: LogPageHead): Uint8Array {
  const text = `${JSON.stringify(head)}\n`
  page.write(text, headRoom - text.length, 'latin1')
  return page.subarray(headRoom - text.length)
}

/** Decodes a page. @throws Error for bytes that are not a page */
export function decodeLogPage(bytes: Uint8Array): { readonly head: LogPageHead; readonly events: Uint8Array } {
  const end = bytes.indexOf(lineBreak)
  if (end < 0) throw new Error('the log page has no head')
  const head: unknown = JSON.parse(Buffer.from(bytes.subarray(0, end)).toString())
  return { head: Value.Parse(LogPageHead, head), events: bytes.subarray(end + 1) }
}

let lastMs = -1
let lastIso = ''
/**
 * Formats a time. Caches the last date, because many lines share a millisecond, and formatting a date costs more than
 * the rest of the line.
 */
function isoTime(atUs: number): string {
  const ms = Math.floor(atUs / 1000)
  if (ms !== lastMs) {
    lastMs = ms
    lastIso = new Date(ms).toISOString()
  }
  return lastIso
}

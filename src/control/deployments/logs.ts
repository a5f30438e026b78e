/**
 * Log streams. The history of a VM comes from its host, which retains the lines; new lines arrive on the bus. If the
 * host does not respond, the stream begins without history. The time of a line in microseconds increases within a VM
 * and is the line's SSE id, so `Last-Event-ID` resumes where the client stopped.
 */
import { Compile } from 'typebox/compile'
import { LogBatch, type LogLine } from '../../contract/agent.ts'
import { logEvent } from '../../contract/log-page.ts'
import type { Deps } from '../base/deps.ts'
import type { EventStream } from '../http/operation.ts'
import type { logEvents } from './streams.ts'
import { keptEvents, keptLines, type LogVm } from './kept-logs.ts'

export interface LogScope {
  readonly projectId: string
  readonly appId: string
  /** Deployment whose lines are streamed; absent: all deployments of the app. */
  readonly deploymentId?: string
  /** Filter for the lines; absent: all lines of the VMs. */
  readonly part?: LogPart
}

/** Selects a part of the log lines for a stream, including lines of VMs that no longer exist. */
export interface LogPart {
  /** Returns whether the stream sends a new line. */
  readonly accepts: (vmId: string, line: LogLine) => boolean
  /** Returns the newest `most` lines after `afterUs` that the stream sends, oldest first. */
  readonly history: (most: number, afterUs: number) => Promise<readonly LogEntry[]>
}

export interface LogEntry {
  readonly line: LogLine
  readonly vmId: string
  readonly deploymentId: string
}

const batchSchema = Compile(LogBatch)
/**
 * Number of characters per write to the client: large enough to share the cost of a write among many lines, small
 * enough to notice a slow client.
 */
const chunkChars = 256 * 1024
/**
 * Maximum number of new lines that are buffered while a slow client still reads the history. Further lines are reported
 * as a gap.
 */
const earlyLines = 20_000

/**
 * Streams log lines until the client disconnects. `tail`: number of history lines that are sent first, over all VMs.
 * The history is sent only as fast as the client reads.
 */
export async function streamLogs(
  deps: Pick<Deps, 'bus' | 'log'>,
  stream: EventStream<typeof logEvents>,
  scope: LogScope,
  vms: readonly LogVm[],
  tail: number,
): Promise<void> {
  const { part } = scope
  const resumeUs = /^\d{1,16}$/.test(stream.lastEventId ?? '') ? Number(stream.lastEventId) : undefined
  /** Time of the newest line that was sent, by VM. It prevents that a line from both history and bus is sent twice. */
  const sentUs = new Map<string, number>()
  let early: LogEntry[] | undefined = []

  const send = (entries: readonly LogEntry[]): void => {
    let text = ''
    for (const entry of entries) {
      if (entry.line.atUs <= (sentUs.get(entry.vmId) ?? 0)) continue
      sentUs.set(entry.vmId, entry.line.atUs)
      text += logEvent(entry.line, entry)
    }
    if (text !== '') stream.send({ event: 'log', text })
  }
  const sendSlowly = async (entries: readonly LogEntry[]) => {
    for (const chunk of chunks(entries)) {
      send(chunk)
      await stream.drained()
    }
  }
  const sendEvents = async (vmId: string, text: Uint8Array, lastUs: number) => {
    if (text.length === 0) return
    sentUs.set(vmId, lastUs)
    stream.send({ event: 'log', text })
    await stream.drained()
  }
  const gap = (vmId: string, lines: number) =>
    stream.send({ event: 'gap', data: { vm_id: vmId, dropped_lines: lines, at: new Date().toISOString() } })

  const subscription = await deps.bus.subscribe(
    `log.*.${scope.projectId}.${scope.appId}.${scope.deploymentId ?? '*'}.*`,
    message => {
      const { vmId, deploymentId, dropped, lines } = batchSchema.Parse(message.data)
      if (dropped > 0) gap(vmId, dropped)
      const entries = lines
        .filter(line => !part || part.accepts(vmId, line))
        .map(line => ({ line, vmId, deploymentId }))
      if (early === undefined) send(entries)
      else if (early.length < earlyLines) early.push(...entries)
      else gap(vmId, entries.length)
    },
    { signal: stream.signal },
  )
  const afterUs = resumeUs ?? 0
  const most = resumeUs === undefined ? tail : 10_000
  const [only] = vms
  stream.send({ event: 'snapshot', data: { at: new Date().toISOString(), vms: vms.map(vm => vm.id) } })
  if (!part && only && vms.length === 1) {
    for await (const page of keptEvents(deps, only, { tail: most, afterUs }, stream.signal))
      if ('lines' in page) await sendSlowly(entriesOf(only, page.lines))
      else await sendEvents(only.id, page.events, page.lastUs)
  } else {
    const past = part
      ? await part.history(most, afterUs)
      : await merged(deps, vms, { tail: most, afterUs }, stream.signal)
    await sendSlowly(resumeUs === undefined ? past.slice(Math.max(0, past.length - tail)) : past)
    // Also marks lines older than the requested tail as sent, so that they are skipped if they arrive through the bus,
    // too.
    for (const entry of past) sentUs.set(entry.vmId, Math.max(sentUs.get(entry.vmId) ?? 0, entry.line.atUs))
  }
  while (early.length > 0) await sendSlowly(early.splice(0))
  early = undefined
  await new Promise<void>(resolve => {
    if (stream.signal.aborted) return resolve()
    stream.signal.addEventListener('abort', () => resolve(), { once: true })
  })
  await subscription.stop()
}

function* chunks(entries: readonly LogEntry[]): Generator<LogEntry[]> {
  let chunk: LogEntry[] = []
  let chars = 0
  for (const entry of entries) {
    chunk.push(entry)
    chars += entry.line.line.length + 150
    if (chars < chunkChars) continue
    yield chunk
    chunk = []
    chars = 0
  }
  if (chunk.length > 0) yield chunk
}

const entriesOf = ({ id: vmId, deploymentId }: LogVm, lines: readonly LogLine[]): LogEntry[] =>
  lines.map(line => ({ line, vmId, deploymentId }))

/** Returns the history of all VMs, ordered by time. */
async function merged(
  deps: Pick<Deps, 'bus' | 'log'>,
  vms: readonly LogVm[],
  past: { readonly tail: number; readonly afterUs: number },
  signal: AbortSignal,
): Promise<LogEntry[]> {
  const linesOf = async (vm: LogVm) => {
    const pages = await Array.fromAsync(keptLines(deps, vm, past, signal))
    return pages.map(({ lines }) => entriesOf(vm, lines))
  }
  const gathered = await Promise.all(vms.map(linesOf))
  return gathered.flat(2).sort((a, b) => a.line.atUs - b.line.atUs)
}

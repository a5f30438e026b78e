/**
 * Log streams. The host that runs a VM keeps its lines, so history comes from there; what comes after it arrives on the
 * bus. Where the host does not answer, the bus's own kept messages are the history. A line's time in microseconds grows
 * within a VM and is the SSE id, so `Last-Event-ID` resumes where the client stopped.
 */
import { Compile } from 'typebox/compile'
import { LogBatch, type LogLine, type VmLogsAnswer } from '../../contract/agent.ts'
import type { Deps } from '../deps.ts'
import { agentClient } from '../hosts/index.ts'
import type { EventStream } from '../http/operation.ts'

export interface LogScope {
  readonly projectId: string
  readonly appId: string
  /** Absent: every deployment of the app. */
  readonly deploymentId?: string
}

export interface LogVm {
  readonly id: string
  readonly deploymentId: string
  readonly hostId: string | null
}

interface Entry {
  readonly line: LogLine
  readonly vmId: string
  readonly deploymentId: string
}

const batchSchema = Compile(LogBatch)
/** Written at once: enough that a line costs no write of its own, little enough that a slow client is noticed. */
const chunkChars = 256 * 1024
/** Lines that arrive while the past is still on its way to a slow client; more are told as a gap. */
const earlyLines = 20_000

/**
 * Runs until the client goes away. `tail`: how many lines of the past come first, over all VMs. The past is sent no
 * faster than the client reads.
 */
export async function streamLogs(
  deps: Pick<Deps, 'bus' | 'log'>,
  stream: EventStream,
  scope: LogScope,
  vms: readonly LogVm[],
  tail: number,
): Promise<void> {
  const resumeUs = /^\d{1,16}$/.test(stream.lastEventId ?? '') ? Number(stream.lastEventId) : undefined
  /** The newest line sent of each VM: what arrives twice, from history and from the bus, is sent once. */
  const sentUs = new Map<string, number>()
  let early: Entry[] | undefined = []

  const send = (entries: readonly Entry[]): void => {
    let text = ''
    for (const entry of entries) {
      if (entry.line.atUs <= (sentUs.get(entry.vmId) ?? 0)) continue
      sentUs.set(entry.vmId, entry.line.atUs)
      text += logEvent(entry)
    }
    if (text !== '') stream.send({ event: 'log', data: null, text })
  }
  const sendSlowly = async (entries: readonly Entry[]) => {
    for (const chunk of chunks(entries)) {
      send(chunk)
      await stream.drained()
    }
  }
  const gap = (vmId: string, lines: number) =>
    stream.send({ event: 'gap', data: { vm_id: vmId, dropped_lines: lines, at: new Date().toISOString() } })

  const subscription = await deps.bus.subscribe(
    `log.*.${scope.projectId}.${scope.appId}.${scope.deploymentId ?? '*'}.*`,
    message => {
      const { vmId, deploymentId, dropped, lines } = batchSchema.Parse(message.data)
      if (dropped > 0) gap(vmId, dropped)
      const entries = lines.map(line => ({ line, vmId, deploymentId }))
      if (early === undefined) send(entries)
      else if (early.length < earlyLines) early.push(...entries)
      else gap(vmId, entries.length)
    },
    { signal: stream.signal },
  )
  const afterUs = resumeUs ?? 0
  const most = resumeUs === undefined ? tail : 10_000
  const pages = vms.map(vm => kept(deps, vm, afterUs, most))
  const [only] = pages
  stream.send({ event: 'snapshot', data: { at: new Date().toISOString(), vms: vms.map(vm => vm.id) } })
  if (only && pages.length === 1) for await (const page of only) await sendSlowly(page)
  else {
    const past = await merged(pages)
    await sendSlowly(resumeUs === undefined ? past.slice(Math.max(0, past.length - tail)) : past)
    // What is older than the tail asked for must not come back through the bus.
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

/** As `encodeEvent` of sse.ts would; only the line itself can hold what JSON has to escape. */
const logEvent = ({ line: { atUs, stream, line }, vmId, deploymentId }: Entry): string =>
  `id: ${atUs}\nevent: log\ndata: {"at":"${isoTime(atUs)}","stream":"${stream}","line":${JSON.stringify(line)},"deployment_id":"${deploymentId}","vm_id":"${vmId}"}\n\n`

let lastMs = -1
let lastIso = ''
/** Lines come many in a millisecond, and writing a date costs more than the rest of the line. */
function isoTime(atUs: number): string {
  const ms = Math.floor(atUs / 1000)
  if (ms !== lastMs) {
    lastMs = ms
    lastIso = new Date(ms).toISOString()
  }
  return lastIso
}

function* chunks(entries: readonly Entry[]): Generator<Entry[]> {
  let chunk: Entry[] = []
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

async function merged(all: readonly AsyncIterable<Entry[]>[]): Promise<Entry[]> {
  const gathered = await Promise.all(all.map(pages => Array.fromAsync(pages)))
  return gathered.flat(2).sort((a, b) => a.line.atUs - b.line.atUs)
}

/**
 * What the host keeps of one VM, a page for each message of the bus, the next one asked for while the last is on its
 * way to the client; what it gave before it fell silent, if it does.
 */
async function* kept(
  deps: Pick<Deps, 'bus' | 'log'>,
  { id: vmId, hostId, deploymentId }: LogVm,
  afterUs: number,
  tail: number,
): AsyncGenerator<Entry[]> {
  if (!hostId || tail === 0) return
  const ask = async (after: number): Promise<VmLogsAnswer> => {
    try {
      return await agentClient(deps.bus, hostId).logs({ vmId, tail, afterUs: after })
    } catch (err) {
      deps.log.warn({ err, vmId, hostId }, 'a host did not answer for the lines it keeps')
      return { lines: [] }
    }
  }
  let answer: Promise<VmLogsAnswer> | undefined = ask(afterUs)
  while (answer) {
    const { lines, more }: VmLogsAnswer = await answer
    const last = lines.at(-1)
    answer = more && last ? ask(last.atUs) : undefined
    yield lines.map(line => ({ line, vmId, deploymentId }))
  }
}

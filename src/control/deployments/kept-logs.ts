/** Reads the log lines that a VM's host retains, one page for each bus message. */
import type { LogLine, VmLogsAnswer, VmLogsRequest } from '../../contract/agent.ts'
import { decodeLogPage } from '../../contract/log-page.ts'
import type { Deps } from '../base/deps.ts'
import { agentClient } from '../hosts/index.ts'

export interface LogVm {
  readonly id: string
  readonly deploymentId: string
  readonly hostId: string | null
}

/**
 * A page of log lines, or of encoded events that can be sent to the client as they are. `lastUs` is the time of the
 * last event.
 */
export type LogPage = { readonly lines: readonly LogLine[] } | { readonly events: Uint8Array; readonly lastUs: number }

type Asker = Pick<Deps, 'bus' | 'log'>
type Past = Omit<VmLogsRequest, 'events' | 'vmId'>

/** Reads pages of log lines, oldest first, for callers that inspect the lines. */
export const keptLines = (
  deps: Asker,
  vm: LogVm,
  past: Past,
  signal: AbortSignal,
): AsyncGenerator<{ readonly lines: readonly LogLine[] }> =>
  pages(deps, vm, past, signal, async (hostId, request) => {
    const { lines, more } = await agentClient(deps.bus, hostId).logs(request)
    return { page: { lines }, nextUs: more && lines.at(-1)?.atUs }
  })

/** Reads pages of log lines as encoded events. Older agents return lines instead. */
export const keptEvents = (deps: Asker, vm: LogVm, past: Past, signal: AbortSignal): AsyncGenerator<LogPage> =>
  pages(deps, vm, past, signal, async (hostId, request) => {
    const events = { deploymentId: vm.deploymentId }
    return nextOf(await agentClient(deps.bus, hostId).logPage({ ...request, events }))
  })

function nextOf(answer: VmLogsAnswer | Uint8Array): Found<LogPage> {
  if (!(answer instanceof Uint8Array))
    return { page: { lines: answer.lines }, nextUs: answer.more && answer.lines.at(-1)?.atUs }
  const { head, events } = decodeLogPage(answer)
  return { page: { events, lastUs: head.lastUs }, nextUs: head.more && events.length > 0 ? head.lastUs : undefined }
}

interface Found<P> {
  readonly page: P
  /** Time at which the next page begins; undefined on the last page. */
  readonly nextUs: number | undefined
}

/**
 * Reads all pages of a VM's log, and requests the next page while the caller sends the previous one. Ends with the
 * pages so far if the host stops responding, if the signal aborts, or if a page does not advance the position, because
 * such a host would be queried forever.
 */
async function* pages<P>(
  { log }: Asker,
  { id: vmId, hostId }: LogVm,
  { tail, afterUs }: Past,
  signal: AbortSignal,
  read: (hostId: string, request: Omit<VmLogsRequest, 'events'>) => Promise<Found<P>>,
): AsyncGenerator<P> {
  if (!hostId || tail === 0) return
  const ask = (after: number) =>
    read(hostId, { vmId, tail, afterUs: after }).catch((err: unknown) => {
      log.warn({ err, vmId, hostId }, 'a host did not return the log lines of a VM')
    })
  let askedUs = afterUs
  for (let answer = ask(askedUs); ; ) {
    const found = await answer
    if (!found || signal.aborted) return
    const { page, nextUs = askedUs } = found
    const isLast = nextUs <= askedUs
    askedUs = nextUs
    if (!isLast) answer = ask(askedUs)
    yield page
    if (isLast) return
  }
}

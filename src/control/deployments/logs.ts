/**
 * Log streams. The host that runs a VM keeps its lines, so history comes from there; what comes after it arrives on the
 * bus. Where the host does not answer, the bus's own kept messages are the history. A line's time in microseconds grows
 * within a VM and is the SSE id, so `Last-Event-ID` resumes where the client stopped.
 */
import { Value } from 'typebox/value'
import { LogBatch, type LogLine } from '../../contract/agent.ts'
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

/** Runs until the client goes away. `tail`: how many lines of the past come first, over all VMs. */
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

  const send = ({ line, vmId, deploymentId }: Entry): boolean => {
    if (line.atUs <= (sentUs.get(vmId) ?? 0)) return true
    sentUs.set(vmId, line.atUs)
    return stream.send({
      event: 'log',
      id: String(line.atUs),
      data: {
        at: new Date(line.atUs / 1000).toISOString(),
        stream: line.stream,
        line: line.line,
        deployment_id: deploymentId,
        vm_id: vmId,
      },
    })
  }
  const subscription = await deps.bus.subscribe(
    `log.*.${scope.projectId}.${scope.appId}.${scope.deploymentId ?? '*'}.*`,
    message => {
      const batch = Value.Parse(LogBatch, message.data)
      if (batch.dropped > 0)
        stream.send({
          event: 'gap',
          data: { vm_id: batch.vmId, dropped_lines: batch.dropped, at: new Date().toISOString() },
        })
      const entries = batch.lines.map(line => ({ line, vmId: batch.vmId, deploymentId: batch.deploymentId }))
      if (early) early.push(...entries)
      else for (const entry of entries) send(entry)
    },
    { signal: stream.signal },
  )
  const past = await history(deps, vms, resumeUs ?? 0, resumeUs === undefined ? tail : 10_000)
  stream.send({ event: 'snapshot', data: { at: new Date().toISOString(), vms: vms.map(vm => vm.id) } })
  const shown = resumeUs === undefined ? past.slice(Math.max(0, past.length - tail)) : past
  for (const entry of shown) send(entry)
  // What is older than the tail asked for must not come back through the bus.
  for (const entry of past) sentUs.set(entry.vmId, Math.max(sentUs.get(entry.vmId) ?? 0, entry.line.atUs))
  for (const entry of early) send(entry)
  early = undefined
  await new Promise<void>(resolve => {
    if (stream.signal.aborted) return resolve()
    stream.signal.addEventListener('abort', () => resolve(), { once: true })
  })
  await subscription.stop()
}

async function history(
  deps: Pick<Deps, 'bus' | 'log'>,
  vms: readonly LogVm[],
  afterUs: number,
  tail: number,
): Promise<Entry[]> {
  const all = await Promise.all(
    vms.map(async vm => {
      if (!vm.hostId) return []
      try {
        const { lines } = await agentClient(deps.bus, vm.hostId).logs({ vmId: vm.id, tail, afterUs })
        return lines.map(line => ({ line, vmId: vm.id, deploymentId: vm.deploymentId }))
      } catch (err) {
        deps.log.warn({ err, vmId: vm.id, hostId: vm.hostId }, 'a host did not answer for the lines it keeps')
        return []
      }
    }),
  )
  return all.flat().sort((a, b) => a.line.atUs - b.line.atUs)
}

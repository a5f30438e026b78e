import { type LogLine, unhealthyMark } from '../../contract/agent.ts'
import type { Deps } from '../base/deps.ts'
import { agentClient } from '../hosts/index.ts'
import { hasFinished } from './restart.ts'
import type { Deployment } from './store.ts'

const shownLines = 10

/**
 * Explains to users why a deployment failed: the cause, and the last log lines of its first failing VM. A VM whose
 * program ended with code 0 is chosen only if no other VM has failed.
 */
export async function explainFailure(
  deps: Pick<Deps, 'bus' | 'log' | 'config'>,
  d: Deployment,
  cause: 'crashed' | 'timeout',
): Promise<string> {
  const ended = d.vms.filter(one => one.observedState === 'crashed')
  const vm = ended.find(one => !hasFinished(d, one)) ?? ended[0] ?? d.vms.find(one => !one.healthy)
  const why =
    cause === 'crashed'
      ? (vm?.error ?? 'The app exited.')
      : (vm?.error ??
        `The app did not pass its health check on port ${d.port} within ${deps.config.rolloutTimeoutSeconds} s.`)
  if (!vm?.hostId) return why
  try {
    const { lines } = await agentClient(deps.bus, vm.hostId).logs({ vmId: vm.id, tail: 100, afterUs: 0 })
    const shown = lastRun(lines).slice(-shownLines)
    const reason = cause === 'timeout' ? unhealthyReason(lines) : ''
    return shown.length === 0 ? `${why}${reason}` : `${why}${reason} Last lines:\n${shown.join('\n')}`
  } catch (err) {
    deps.log.warn({ err, vmId: vm.id }, 'failed to read log lines for a failed deployment')
    return why
  }
}

/** Returns the output of the last run of a program that printed anything: a program that crashes runs several times. */
function lastRun(lines: readonly Pick<LogLine, 'stream' | 'line'>[]): readonly string[] {
  const runs: string[][] = [[]]
  for (const { stream, line } of lines)
    if (stream !== 'system') runs.at(-1)?.push(line)
    else if (exit.test(line)) runs.push([])
  return runs.findLast(run => run.length > 0) ?? []
}

/** Returns the newest result of the health check in a VM's log as a sentence; empty if there is none. */
export function unhealthyReason(lines: readonly Pick<LogLine, 'stream' | 'line'>[]): string {
  const line = lines.findLast(one => one.stream === 'system' && one.line.startsWith(unhealthyMark))?.line
  const reason = line?.slice(unhealthyMark.length) ?? ''
  return reason === '' ? '' : ` ${reason.charAt(0).toUpperCase()}${reason.slice(1)}.`
}

/** Matches the log line of a program's exit, as hosts of this release and of older ones write it. */
const exit = /^the (?:program exited|workload ended) with code/

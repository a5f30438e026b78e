/** The table of `mote top`. */
import type { VmProcessList } from '../client/index.ts'
import { listing } from './output.ts'

/**
 * Formats the processes, busiest first.
 * @param before an earlier list, from which CPU shares are computed
 * @param ms time between the two lists
 * @param rows height of the terminal; processes that do not fit are left out
 */
export function tableOf(now: VmProcessList, before?: VmProcessList, ms = 0, rows = Number.POSITIVE_INFINITY): string {
  const earlier = new Map(before?.processes.map(one => [one.pid, one.cpu_ms]))
  const share = ({ pid, cpu_ms }: VmProcessList['processes'][number]) =>
    before && ms > 0 ? ((cpu_ms - (earlier.get(pid) ?? cpu_ms)) / ms) * 100 : 0
  const sorted = now.processes
    .map(one => ({ ...one, share: share(one) }))
    .sort((a, b) => b.share - a.share || b.cpu_ms - a.cpu_ms || a.pid - b.pid)
    .slice(0, Math.max(1, rows - 2))
  const head = ['PID', 'USER', 'STATE', before ? 'CPU %' : 'CPU S', 'MEMORY', 'COMMAND']
  const lines = sorted.map(one => [
    ...[String(one.pid), String(one.user_id), one.state],
    before ? one.share.toFixed(1) : (one.cpu_ms / 1000).toFixed(1),
    `${(one.memory_kib / 1024).toFixed(1)} MiB`,
    one.command,
  ])
  return listing(head, lines, 'No processes.')
}

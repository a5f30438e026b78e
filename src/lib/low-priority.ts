import { getPriority, setPriority } from 'node:os'

/**
 * Lowers the priority of the calling thread: on Linux the priority of "process 0" is that of the thread alone. A lower
 * priority, as set by nice(1), stays: only root may raise a priority.
 */
export function lowerOwnPriority(niceness: number): void {
  if (process.platform === 'linux' && getPriority(0) < niceness) setPriority(0, niceness)
}

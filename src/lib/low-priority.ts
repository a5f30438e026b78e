import { getPriority, setPriority } from 'node:os'

/**
 * Lowers the priority of the calling thread: on Linux, the priority of "process 0" is that of the calling thread only.
 * A priority that is lower already, such as one set by nice(1), is kept, because only root may raise a priority.
 */
export function lowerOwnPriority(niceness: number): void {
  if (process.platform === 'linux' && getPriority(0) < niceness) setPriority(0, niceness)
}

import { getPriority, setPriority } from 'node:os'

/**
 * Makes the calling thread give way to others: on Linux a priority of "process 0" is that of the thread alone. One that
 * started less important than that, under nice(1), stays so: only root may raise a priority.
 */
export function lowerOwnPriority(niceness: number): void {
  if (process.platform === 'linux' && getPriority(0) < niceness) setPriority(0, niceness)
}

import { readFileSync } from 'node:fs'

/** Identifies a process: a pid may be reused, but not with the same start time (clock ticks since boot). */
export interface ProcessIdentity {
  readonly pid: number
  readonly startTicks: number
}

/**
 * Returns the identity of the process with this pid; undefined if there is none, or only a zombie. A killed process
 * keeps its files and devices until its last thread has exited, while its first thread may already be a zombie.
 */
export function identifyProcess(pid: number): ProcessIdentity | undefined {
  const fields = statFields(pid)
  if (fields === undefined || fields[0] === 'X' || (fields[0] === 'Z' && Number(fields[17]) <= 1)) return undefined
  return { pid, startTicks: Number(fields[19]) }
}

export function isRunning(identity: ProcessIdentity): boolean {
  return identifyProcess(identity.pid)?.startTicks === identity.startTicks
}

/** Returns the process's user and system time in seconds; undefined if it has exited. */
export function cpuSeconds(pid: number): number | undefined {
  const fields = statFields(pid)
  // USER_HZ is 100 on every Linux architecture that Node runs on.
  return fields === undefined ? undefined : (Number(fields[11]) + Number(fields[12])) / 100
}

/**
 * Returns the fields of /proc/<pid>/stat from the third one (state) on. The second one is the process name, which may
 * contain spaces and parentheses.
 */
function statFields(pid: number): string[] | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')
  } catch {
    return undefined
  }
}

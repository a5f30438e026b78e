import { readFileSync } from 'node:fs'

/** A pid alone is reused; together with the start time (clock ticks since boot) it names one process. */
export interface ProcessIdentity {
  readonly pid: number
  readonly startTicks: number
}

/**
 * The process that has this pid now, or undefined when there is none or only its zombie. One that was killed has its files and
 * devices until its last thread has ended, and its first may be a zombie by then.
 */
export function identifyProcess(pid: number): ProcessIdentity | undefined {
  const fields = statFields(pid)
  if (fields === undefined || fields[0] === 'X' || (fields[0] === 'Z' && Number(fields[17]) <= 1)) return undefined
  return { pid, startTicks: Number(fields[19]) }
}

export function isRunning(identity: ProcessIdentity): boolean {
  return identifyProcess(identity.pid)?.startTicks === identity.startTicks
}

/** User and system time the process has used, in seconds; undefined when it has gone. */
export function cpuSeconds(pid: number): number | undefined {
  const fields = statFields(pid)
  // USER_HZ is 100 on every Linux architecture that Node runs on.
  return fields === undefined ? undefined : (Number(fields[11]) + Number(fields[12])) / 100
}

/** Fields of /proc/<pid>/stat from the third (state) on: the second, the name, may hold spaces and parentheses. */
function statFields(pid: number): string[] | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')
  } catch {
    return undefined
  }
}

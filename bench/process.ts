/** Reads the CPU time and memory of a process from the kernel (`/proc`). */
import { readdirSync, readFileSync } from 'node:fs'

/** A clock tick (USER_HZ) is 10 ms on every Linux. */
const tickMs = 10

export function cpuMsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * tickMs
}

/** Returns the resident memory of the process in MiB, including pages of files that it shares with other processes. */
export function rssMib(pid: number): number {
  return kibOf(pid, 'VmRSS') / 1024
}

const statusOf = (pid: number, line: RegExp) => Number(line.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)

const kibOf = (pid: number, field: string) => statusOf(pid, new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm'))

/**
 * Returns the resident memory in MiB of the largest descendant of this process with this name. It need not be a child,
 * because intermediate processes start the peers.
 * @throws Error if there is none
 */
export function rssOfStartedMib(name: string): number {
  const found = started().filter(pid => nameOf(pid) === name)
  if (found.length === 0) throw new Error(`no ${name} runs below this process`)
  return Math.max(...found.map(rssMib))
}

function started(): number[] {
  const parents = new Map(
    readdirSync('/proc').flatMap(name => (/^\d+$/.test(name) ? [[Number(name), parentOf(Number(name))] as const] : [])),
  )
  const isOurs = (pid: number | undefined): boolean =>
    pid !== undefined && pid !== 0 && (pid === process.pid || isOurs(parents.get(pid)))
  return [...parents.keys()].filter(pid => pid !== process.pid && isOurs(pid))
}

/** Returns the name of the process; undefined if it has ended. */
function nameOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').trim()
  } catch {
    return undefined
  }
}

function parentOf(pid: number): number | undefined {
  try {
    return statusOf(pid, /^PPid:\s+(\d+)$/m)
  } catch {
    return undefined
  }
}

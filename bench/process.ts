/** What a process has used so far, as the kernel says. */
import { readdirSync, readFileSync } from 'node:fs'

/** The clock ticks of Linux (USER_HZ) are 10 ms everywhere. */
const tickMs = 10

export function cpuMsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * tickMs
}

/** Resident memory, what it shares with others as files included. */
export function rssMib(pid: number): number {
  return kibOf(pid, 'VmRSS') / 1024
}

const statusOf = (pid: number, line: RegExp) => Number(line.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)

const kibOf = (pid: number, field: string) => statusOf(pid, new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm'))

/**
 * Resident memory of the largest process of that name that this one has started, directly or not; peers are started by
 * others in between.
 * @throws Error when there is none
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

/** Of one that has ended meanwhile: nothing. */
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

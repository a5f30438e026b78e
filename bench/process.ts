/** What a process has used so far, as the kernel says. */
import { readFileSync } from 'node:fs'

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

const kibOf = (pid: number, field: string) =>
  Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)

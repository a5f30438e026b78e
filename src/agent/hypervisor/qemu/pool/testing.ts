import { readdir, readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'

/** Processes that wait for a VM of the agent with this directory. */
export async function waitingIn(dataDir: string): Promise<number[]> {
  const found: number[] = []
  for (const name of await readdir('/proc')) {
    const errors = await readlink(`/proc/${name}/fd/2`).catch(() => '')
    if (errors !== join(dataDir, 'waiting', 'vmm.err')) continue
    const comm = await readFile(`/proc/${name}/comm`, 'utf8').catch(() => '')
    if (comm === 'mote-waits\n') found.push(Number(name))
  }
  return found
}

/** The group (cgroup2) that a process is in; empty: it has gone. */
export async function groupOf(pid: number): Promise<string> {
  const groups = await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '')
  return /^0::(.*)$/m.exec(groups)?.[1] ?? ''
}

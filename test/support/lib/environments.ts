/** Reads the environment variables of all descendants of this process. */
import { readFileSync, readdirSync } from 'node:fs'

export interface Started {
  readonly pid: number
  /** The first 15 characters of the program's name. */
  readonly name: string
  readonly environ: string
}

/** Returns the descendants of this process, except those whose parent has exited. */
export function startedProcesses(): Started[] {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const parent = /\) \S (\d+) /.exec(read(`/proc/${name}/stat`))?.[1]
    if (parent !== undefined) parents.set(Number(name), Number(parent))
  }
  const isOurs = (pid: number | undefined): boolean =>
    pid !== undefined && (parents.get(pid) === process.pid || isOurs(parents.get(pid)))
  return [...parents.keys()]
    .filter(isOurs)
    .map(pid => ({ pid, name: read(`/proc/${pid}/comm`).trim(), environ: read(`/proc/${pid}/environ`) }))
}

/** Returns the contents of a file below /proc, or an empty string if the process has exited. */
function read(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}

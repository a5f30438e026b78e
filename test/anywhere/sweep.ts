/**
 * Removes the leftovers of killed runs: files, control groups and firewall rules. Their processes and mounts have
 * disappeared on their own.
 */
import { existsSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../src/lib/exec.ts'
import { groupsOfRuns, removeTree } from './limits.ts'
import { cacheDir } from './roots.ts'
import { tablePrefix } from './wire.ts'

/** True if the name ends with the PID of a process that is gone, possibly followed by `.img`. */
const isOrphan = (name: string) => {
  const pid = /[-_](\d+)(?:\.img)?$/.exec(name)?.[1]
  return pid !== undefined && !existsSync(`/proc/${pid}`)
}

export async function sweep(): Promise<void> {
  const cells = join(cacheDir, 'cells')
  for (const name of await readdir(cells).catch(() => []))
    if (isOrphan(name)) await rm(join(cells, name), { recursive: true, force: true })
  for (const group of await groupsOfRuns()) if (isOrphan(group)) await removeTree(group)
  const tables = (await run('nft', ['list', 'tables', 'ip'])).split('\n').map(line => line.replace('table ip ', ''))
  for (const table of tables)
    if (table.startsWith(tablePrefix) && isOrphan(table)) await run('nft', ['delete', 'table', 'ip', table])
}

/** Caches the private networks that are stored in the database, and reads only changed projects again. */
import type { Db } from '../../db/db.ts'
import { minutes } from '../../lib/duration.ts'
import { type Networks, networksOf } from './hosts.ts'
import { networkState, projectNetworks } from './network-store.ts'

/**
 * Interval of a full reload, for changes whose notification was lost. After a lost database connection, a notification
 * requests a full reload anyway.
 */
const reloadAfterMs = minutes(5)

export interface CurrentNetworks {
  /** The private networks at the last read; undefined before the first read. */
  known(): Networks | undefined
  read(): Promise<Networks>
  /** Makes the next `read` reload one project, or all projects. */
  changed(projectId?: string): void
}

export function currentNetworks(db: Db): CurrentNetworks {
  let networks: Networks | undefined
  let loadedMs = 0
  let everything = true
  const projects = new Set<string>()

  // Called before each read, so that a notification that arrives during the read is handled by the next one.
  const forget = () => {
    everything = false
    projects.clear()
  }
  const readAll = async () => {
    forget()
    loadedMs = performance.now()
    networks = networksOf(await networkState(db))
    return networks
  }
  const readSome = async (now: Networks) => {
    const affected = [...projects]
    forget()
    now.replace(affected, await projectNetworks(db, affected))
    return now
  }
  return {
    known: () => networks,
    async read() {
      try {
        if (!networks || everything || performance.now() - loadedMs > reloadAfterMs) return await readAll()
        return projects.size === 0 ? networks : await readSome(networks)
      } catch (cause) {
        everything = true
        throw cause
      }
    },
    changed(projectId) {
      if (projectId === undefined) everything = true
      else projects.add(projectId)
    },
  }
}

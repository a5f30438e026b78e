/** The networks as the database has them, kept up to date by reading what has changed and no more. */
import type { Db } from '../../db/db.ts'
import { minutes } from '../../lib/duration.ts'
import { type Networks, networksOf } from './hosts.ts'
import { networkState, projectNetworks } from './network-store.ts'

/** All of it again, for what nothing told of; a connection to the database that was lost tells when it is back. */
const reloadAfterMs = minutes(5)

export interface CurrentNetworks {
  /** As they were read last; undefined: not yet. */
  known(): Networks | undefined
  read(): Promise<Networks>
  /** The next read reads this project again; everything, without one. */
  changed(projectId?: string): void
}

export function currentNetworks(db: Db): CurrentNetworks {
  let networks: Networks | undefined
  let loadedMs = 0
  let everything = true
  const projects = new Set<string>()

  // What is told while rows are read is for the next time: it is forgotten before, not after.
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

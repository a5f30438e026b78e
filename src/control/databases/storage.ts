/** Storage of a branch: an interface with two implementations, selected by a column of the database. */
import type { Tx } from '../../db/db.ts'
import type { Write } from '../../engine/workflow.ts'
import type { DatabaseDeps } from './deps.ts'
import { neonStorage } from './neon-storage.ts'
import type { DatabaseSnapshot } from './snapshot-store.ts'
import type { Branch, Database } from './store.ts'
import { volumeStorage } from './volume-storage.ts'

/** Progress of a storage task that takes several workflow steps. `write` runs in the commit of the current step. */
export type Progress =
  | { readonly state: 'ready'; readonly write?: Write }
  | { readonly state: 'waiting'; readonly write?: Write; readonly ms?: number }
  | { readonly state: 'failed'; readonly error: string }

export interface Storage {
  /** Creates the storage of a new branch. When it is `ready`, `write` creates the branch's app and starts its VM. */
  make(b: Branch, signal: AbortSignal): Promise<Progress>
  /** Starts to restore the branch from the snapshot that its row names, in the transaction `tx`. */
  beginRewind(tx: Tx, b: Branch): Promise<void>
  rewind(b: Branch, signal: AbortSignal): Promise<Progress>
  /** Removes all storage of the branch. */
  release(b: Branch, signal: AbortSignal): Promise<Progress>
  /** Takes a snapshot from which branches can be created. `made` describes the snapshot. */
  snapshot(s: DatabaseSnapshot, b: Branch, signal: AbortSignal): Promise<Progress & { readonly made?: SnapshotMade }>
  dropSnapshot(tx: Tx, s: DatabaseSnapshot): Promise<void>
}

export interface SnapshotMade {
  readonly sizeBytes: number
  readonly lsn: string | null
}

/** Returns the function that selects the storage of a branch. */
export function storages(deps: DatabaseDeps): (of: { readonly database: Pick<Database, 'backend'> }) => Storage {
  const all = { volume: volumeStorage(deps), neon: neonStorage(deps) } satisfies Record<Database['backend'], Storage>
  return ({ database }) => all[database.backend]
}

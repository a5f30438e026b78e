/** Storage of a branch: an interface with two implementations, selected by a column of the database. */
import type { Tx } from '../../db/db.ts'
import type { Write } from '../../engine/workflow.ts'
import type { DatabaseDeps } from './deps.ts'
import { neonStorage } from './neon-storage.ts'
import type { DatabaseSnapshot } from './snapshot-store.ts'
import type { Branch, Database } from './store.ts'
import { volumeStorage } from './volume-storage.ts'

/** Progress of a longer task. `write` runs in the commit of the workflow step. */
export type Progress =
  | { readonly state: 'ready'; readonly write?: Write }
  | { readonly state: 'waiting'; readonly write?: Write; readonly ms?: number }
  | { readonly state: 'failed'; readonly error: string }

export interface Storage {
  /** Creates everything the VM needs; `write` of `ready` creates the app and starts its VM. */
  make(b: Branch, signal: AbortSignal): Promise<Progress>
  /** Starts to restore the branch from the snapshot that its row names, in the given transaction. */
  beginRewind(tx: Tx, b: Branch): Promise<void>
  rewind(b: Branch, signal: AbortSignal): Promise<Progress>
  /** Removes everything that is left of the branch. */
  release(b: Branch, signal: AbortSignal): Promise<Progress>
  /** Takes a snapshot that branches can start from; `made` describes it. */
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

/** Where a branch keeps its data. Two ways of one form; which one is a column of the database. */
import type { Tx } from '../../db/db.ts'
import type { Write } from '../../engine/workflow.ts'
import type { DatabaseDeps } from './deps.ts'
import { neonStorage } from './neon-storage.ts'
import type { DatabaseSnapshot } from './snapshot-store.ts'
import type { Branch, Database } from './store.ts'
import { volumeStorage } from './volume-storage.ts'

/** One look at something that takes a while. `write` goes into the commit of the look. */
export type Progress =
  | { readonly state: 'ready'; readonly write?: Write }
  | { readonly state: 'waiting'; readonly write?: Write; readonly ms?: number }
  | { readonly state: 'failed'; readonly error: string }

export interface Storage {
  /** Towards all that the VM needs; `write` of `ready` makes the app and starts its VM. */
  make(b: Branch, signal: AbortSignal): Promise<Progress>
  /** In one commit: from here on it is being put back to its snapshot. */
  beginRewind(tx: Tx, b: Branch): Promise<void>
  rewind(b: Branch, signal: AbortSignal): Promise<Progress>
  /** Towards nothing being left of it. */
  release(b: Branch, signal: AbortSignal): Promise<Progress>
  /** Towards a snapshot that can be started from; what it is made of is in `made`. */
  snapshot(s: DatabaseSnapshot, b: Branch, signal: AbortSignal): Promise<Progress & { readonly made?: SnapshotMade }>
  dropSnapshot(tx: Tx, s: DatabaseSnapshot): Promise<void>
}

export interface SnapshotMade {
  readonly sizeBytes: number
  readonly lsn: string | null
}

/** The storage of a branch. */
export function storages(deps: DatabaseDeps): (of: { readonly database: Pick<Database, 'backend'> }) => Storage {
  const all = { volume: volumeStorage(deps), neon: neonStorage(deps) } satisfies Record<Database['backend'], Storage>
  return ({ database }) => all[database.backend]
}

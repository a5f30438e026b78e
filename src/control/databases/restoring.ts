/** Putting a branch back to a snapshot: what it was before is kept as a snapshot of its own first. */
import type { Tx } from '../../db/db.ts'
import type { Write } from '../../engine/machine.ts'
import type { DatabaseDeps } from './deps.ts'
import { startVm } from './equip.ts'
import { tellFailed } from './notices.ts'
import { takeSnapshot } from './snapshot-machine.ts'
import * as snapshots from './snapshot-store.ts'
import type { Progress } from './storage.ts'
import type { Branch } from './store.ts'
import * as store from './store.ts'

/** Names of the platform; people cannot take them. */
export const keptPrefix = 'before-restore-'
const keptName = (b: Branch) => `${keptPrefix}${b.id.slice(-12)}-${b.restores}`

export async function beginKeeping(tx: Tx, b: Branch): Promise<void> {
  await takeSnapshot(tx, b, { name: keptName(b), kind: 'restore' })
}

export async function keepingProgress(deps: Pick<DatabaseDeps, 'db'>, b: Branch): Promise<Progress> {
  const kept = (await snapshots.list(deps.db, b.databaseId)).find(one => one.name === keptName(b))
  if (!kept) return { state: 'failed', error: 'The state before the restore could not be kept.' }
  if (kept.state === 'failed') return { state: 'failed', error: kept.error ?? 'The state before could not be kept.' }
  return { state: kept.state === 'ready' ? 'ready' : 'waiting' }
}

/** Nothing was changed: it goes on as it was. */
export async function abandonRestore(deps: DatabaseDeps, tx: Tx, b: Branch, error: string): Promise<void> {
  await store.endRestore(tx, b.id)
  await tellFailed(tx, b, `It was not restored and goes on as it was: ${error}`)
  await startVm(deps, tx, b)
}

export async function finishRewinding(deps: DatabaseDeps, tx: Tx, b: Branch, write: Write | undefined): Promise<void> {
  await write?.(tx)
  await store.endRestore(tx, b.id)
  await startVm(deps, tx, b)
}

/**
 * Restores a branch from a snapshot, or to an instant from its backups. The previous state is retained as a snapshot
 * first.
 */
import type { Tx } from '../../db/db.ts'
import type { Write } from '../../engine/workflow.ts'
import { findVolume, restoreVolume } from '../volumes/index.ts'
import type { DatabaseDeps } from './deps.ts'
import { startVm } from './provision.ts'
import { reportFailed } from './notices.ts'
import { takeSnapshot } from './snapshot-workflow.ts'
import * as snapshots from './snapshot-store.ts'
import type { Progress } from './storage.ts'
import type { Branch } from './store.ts'
import * as restores from './restore-store.ts'

/** Prefix of the names of snapshots that the platform takes. Users cannot use it. */
export const keptPrefix = 'before-restore-'
const keptName = (b: Branch) => `${keptPrefix}${b.id.slice(-12)}-${b.restores}`

export async function beginKeeping(tx: Tx, b: Branch): Promise<void> {
  await takeSnapshot(tx, b, { name: keptName(b), kind: 'restore' })
}

export async function keepingProgress(deps: Pick<DatabaseDeps, 'db'>, b: Branch): Promise<Progress> {
  const kept = (await snapshots.list(deps.db, b.databaseId)).find(one => one.name === keptName(b))
  if (!kept) return { state: 'failed', error: 'The state before the restore could not be retained.' }
  if (kept.state === 'failed')
    return { state: 'failed', error: kept.error ?? 'The state before the restore could not be retained.' }
  return { state: kept.state === 'ready' ? 'ready' : 'waiting' }
}

/** Ends a failed restore. The data is as it was before the restore, and the database starts again. */
export async function abandonRestore(deps: DatabaseDeps, tx: Tx, b: Branch, error: string): Promise<void> {
  await restores.endRestore(tx, b.id)
  await reportFailed(tx, b, `The restore failed, and the database continues unchanged: ${error}`)
  await startVm(deps, tx, { ...b, restored: b.restores })
}

export async function finishRewinding(deps: DatabaseDeps, tx: Tx, b: Branch, write: Write | undefined): Promise<void> {
  await write?.(tx)
  await restores.endRestore(tx, b.id)
  await startVm(deps, tx, { ...b, restored: b.restores })
}

/** Returns the disk to the retained state. The VM that failed to replay the backups must be gone. */
export async function undoProgress(deps: Pick<DatabaseDeps, 'db'>, b: Branch): Promise<Progress> {
  const volume = b.dataVolumeId ? await findVolume(deps.db, b.dataVolumeId) : undefined
  const kept = (await snapshots.list(deps.db, b.databaseId)).find(one => one.name === keptName(b))
  const { volumeSnapshotId } = kept ?? {}
  if (!volume || !volumeSnapshotId) return { state: 'failed', error: 'The retained state no longer exists.' }
  if (volume.state === 'restoring') return { state: 'waiting' }
  if (volume.restoreSnapshotId !== volumeSnapshotId)
    return {
      state: 'waiting',
      async write(tx) {
        await restoreVolume(tx, volume.id, volumeSnapshotId)
      },
    }
  return volume.error ? { state: 'failed', error: volume.error } : { state: 'ready' }
}

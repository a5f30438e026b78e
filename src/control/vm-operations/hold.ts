/** Whoever makes something of a snapshot of a VM holds it, with the volumes that its guest has mounted. */
import type { Tx } from '../../db/db.ts'
import { ApiError } from '../http/errors.ts'
import { lockVolumes } from '../moves/index.ts'
import { findSnapshot, lockSnapshot, type Snapshot } from '../vms/index.ts'

/**
 * The snapshot, locked until the transaction ends after the volumes that it names (docs/engine.md, order of locks): which these are is
 * read before, and looked at again. Undefined: there is none.
 * @throws ApiError 409 `operation_in_progress` when it became another one meanwhile
 */
export async function holdSnapshot(tx: Tx, deploymentId: string, name: string): Promise<Snapshot | undefined> {
  const before = await findSnapshot(tx, deploymentId, name)
  if (!before) return undefined
  const volumeIds = before.disks.map(disk => disk.volumeId)
  if (volumeIds.length > 0) await lockVolumes(tx, volumeIds)
  const snapshot = await lockSnapshot(tx, deploymentId, name)
  if (snapshot?.disks.every(disk => volumeIds.includes(disk.volumeId)) ?? true) return snapshot
  throw new ApiError('operation_in_progress', `Snapshot ${name} has just been taken. Try again.`)
}

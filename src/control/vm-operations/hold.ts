/** Locks a VM snapshot together with the volumes that its guest has mounted. */
import type { Tx } from '../../db/db.ts'
import { ApiError } from '../http/errors.ts'
import { lockVolumes } from '../moves/index.ts'
import { findSnapshot, lockSnapshot, type Snapshot } from '../vms/index.ts'

/**
 * Locks the snapshot's volumes and then the snapshot, until the transaction ends (docs/engine.md, order of locks). The
 * list of volumes is read before the locks are taken, and compared again afterwards. Returns undefined if the snapshot
 * does not exist.
 * @throws ApiError 409 `operation_in_progress` when the snapshot was replaced in the meantime
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

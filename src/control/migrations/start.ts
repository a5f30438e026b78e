/**
 * Starts and cancels migrations: writes rows and creates workflows in the caller's transaction, and contacts no host.
 */
import type { Tx } from '../../db/db.ts'
import { createWorkflow, poke } from '../../engine/runner.ts'
import { hours, minutes } from '../../lib/duration.ts'
import { newId } from '../../lib/ids.ts'
import { ApiError } from '../http/errors.ts'
import { retainedWithVolumes, lockVolumes, startMove, startSnapshotMove } from '../moves/index.ts'
import * as store from './store.ts'
import type { MovePlan } from './plan.ts'
import { boundDisks, isBeingKept } from './plan-store.ts'

const preparingAlertMs = minutes(3)
/**
 * Time limit for copying the snapshots that move with a VM. Copies that make no progress are cancelled much earlier.
 */
export const coMovedMs = hours(24)

/**
 * Starts the migration of a VM. The caller has reserved capacity on the target in the same transaction.
 * @param volumes volumes that move with the VM, from `chooseMove`; VM snapshots that depend on them move, too
 * @throws ApiError 409 `operation_in_progress` when another operation uses one of them
 */
export async function startMigration(
  tx: Tx,
  migration: Omit<store.NewMigration, 'id'>,
  volumes: MovePlan['volumes'] = [],
): Promise<string> {
  const id = newId()
  await store.insert(tx, { ...migration, id })
  const how = migration.method === 'live' ? 'brought' : 'copied'
  const volumeIds = volumes.map(volume => volume.volumeId)
  await lockVolumes(tx, volumeIds)
  for (const { volumeId, pool } of volumes) {
    const move = { volumeId, targetHostId: migration.targetHostId, targetPool: pool }
    if (!(await startMove(tx, { ...move, with: { migrationId: id, how } })))
      throw new ApiError('operation_in_progress', 'A volume of the VM is being changed. Try again afterwards.')
  }
  const targetHostId = migration.targetHostId
  const kept = await retainedWithVolumes(tx, volumeIds)
  for (const { id: snapshotId, name } of kept)
    if (!(await startSnapshotMove(tx, { snapshotId, targetHostId, groupId: id, migrationId: id })))
      throw new ApiError('operation_in_progress', `Snapshot ${name} is being forked or restored. Try again afterwards.`)
  // The target host may have stored an older generation of this VM, so the generation that it gets must be newer.
  await store.raise(tx, migration.vmId)
  // Attaching a volume locks the VM's row, so a volume that was attached after the plan was made is visible here.
  if ((await boundDisks(tx, migration.vmId)) !== volumes.length)
    throw new ApiError('operation_in_progress', 'A volume has just been attached to the VM. Try again.')
  if (await isBeingKept(tx, migration.vmId))
    throw new ApiError('operation_in_progress', 'A snapshot of the VM is being taken. Try again afterwards.')
  const deadlineMs = preparingAlertMs + (kept.length > 0 ? coMovedMs : 0)
  await createWorkflow(tx, 'migration', id, 'preparing', { deadlineMs })
  await poke(tx, 'vm', migration.vmId)
  return id
}

/**
 * Requests that the migration is cancelled. Returns false when it is too late, because the guest already runs on the
 * target.
 */
export async function cancelMigration(tx: Tx, id: string): Promise<boolean> {
  if (!(await store.cancel(tx, id))) return false
  await poke(tx, 'migration', id)
  return true
}

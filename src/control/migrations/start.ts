/** Moves of VMs begin and are given up: rows and machines, in the caller's transaction. No host is asked. */
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
/** Snapshots of VMs that go along; copies of them that do not go on are given up long before. */
export const coMovedMs = hours(24)

/**
 * Wishes for the move of a VM; the caller has reserved the room on the target in the same transaction.
 * @param volumes those that go along, see `chooseMove`; so do the snapshots of VMs that have what they held
 * @throws ApiError 409 `operation_in_progress` when somebody else has begun to do something with one of them
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
      throw new ApiError('operation_in_progress', 'One of its volumes is being changed now. Try again after that.')
  }
  const targetHostId = migration.targetHostId
  const kept = await retainedWithVolumes(tx, volumeIds)
  for (const { id: snapshotId, name } of kept)
    if (!(await startSnapshotMove(tx, { snapshotId, targetHostId, groupId: id, migrationId: id })))
      throw new ApiError('operation_in_progress', `Snapshot ${name} is being forked or restored. Try again after that.`)
  // The target may have had it before: what it gets now must be newer.
  await store.raise(tx, migration.vmId)
  // Whoever attached one meanwhile held the VM's row.
  if ((await boundDisks(tx, migration.vmId)) !== volumes.length)
    throw new ApiError('operation_in_progress', 'A volume has just been attached to the VM. Try again.')
  if (await isBeingKept(tx, migration.vmId))
    throw new ApiError('operation_in_progress', 'A snapshot of the VM is being taken. Try again after that.')
  const deadlineMs = preparingAlertMs + (kept.length > 0 ? coMovedMs : 0)
  await createWorkflow(tx, 'migration', id, 'preparing', { deadlineMs })
  await poke(tx, 'vm', migration.vmId)
  return id
}

/** False when it is too late: the guest runs on the target already. */
export async function cancelMigration(tx: Tx, id: string): Promise<boolean> {
  if (!(await store.cancel(tx, id))) return false
  await poke(tx, 'migration', id)
  return true
}

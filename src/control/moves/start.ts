/** Starts and cancels moves: writes rows and creates workflows in the caller's transaction, and contacts no host. */
import type { Tx } from '../../db/db.ts'
import { createWorkflow, poke, pokeMany } from '../../engine/runner.ts'
import { minutes } from '../../lib/duration.ts'
import { newId } from '../../lib/ids.ts'
import { cancelGroup, completeSnapshots, lockGroup, pokeDependents } from './group.ts'
import * as snapshots from './snapshot-store.ts'
import * as store from './volume-store.ts'

export interface MoveRequest {
  readonly volumeId: string
  readonly targetHostId: string
  readonly targetPool: string
  /** Id of the migration, if the volume moves together with its VM. */
  readonly with?: { readonly migrationId: string; readonly how: store.VolumeMove['how'] }
  /** Id of the group of detached volumes that switch to the target together. */
  readonly groupId?: string
}

/**
 * Starts the move of a volume. Returns its id; undefined when the volume is already on the target, or another operation
 * uses it.
 */
export async function startMove(tx: Tx, request: MoveRequest): Promise<string | undefined> {
  const { volumeId, targetHostId, targetPool } = request
  const id = newId()
  await store.lock(tx, [volumeId])
  const how = request.with?.how ?? 'copied'
  const { with: companion, groupId = null } = request
  const move = {
    id,
    volumeId,
    targetHostId,
    targetPool,
    how,
    groupId,
    migrationId: companion?.migrationId ?? null,
  }
  if (!(await store.begin(tx, { ...move, final: companion === undefined }))) return undefined
  await createWorkflow(tx, 'volume-move', id, 'preparing', { deadlineMs: minutes(5) })
  return id
}

/**
 * Starts the move of a VM snapshot as part of the group `groupId`, together with the volumes that it has copies of.
 * Returns undefined when the snapshot is in use.
 */
export async function startSnapshotMove(
  tx: Tx,
  request: Omit<snapshots.NewSnapshotMove, 'id'>,
): Promise<string | undefined> {
  const id = newId()
  if (!(await snapshots.begin(tx, { ...request, id }))) return undefined
  await createWorkflow(tx, 'vm-snapshot-move', id, 'preparing', { deadlineMs: minutes(5) })
  return id
}

/**
 * Cancels a move together with its group. Returns false when the move has ended, or the volume is already on its new
 * host.
 */
export async function cancelMove(tx: Tx, id: string): Promise<boolean> {
  const groupId = (await store.byId(tx, id))?.groupId
  if (groupId) await lockGroup(tx, groupId)
  if (!(await store.cancel(tx, id))) return false
  await poke(tx, 'volume-move', id)
  if (groupId) await cancelGroup(tx, groupId)
  return true
}

/** Cancels all moves of volumes and snapshots that belong to a migration. */
export async function cancelMovesOf(tx: Tx, migrationId: string): Promise<void> {
  await lockGroup(tx, migrationId)
  for (const { id } of await store.ofMigration(tx, migrationId)) await cancelMove(tx, id)
  await cancelGroup(tx, migrationId)
}

/** Allows the last pass of the copies. Called after the VM was stopped, so that it writes nothing more. */
export async function finishCopies(tx: Tx, migrationId: string): Promise<void> {
  const moves = await store.ofMigration(tx, migrationId)
  await store.lock(
    tx,
    moves.map(move => move.volumeId),
  )
  for (const id of await store.makeFinal(tx, migrationId)) await poke(tx, 'volume-move', id)
}

/**
 * Switches the volumes of a migration, and the snapshots with copies of them, to the target in this transaction.
 * @throws Error when one of the moves was cancelled; the caller must roll back
 */
export async function completeMovesOf(tx: Tx, migrationId: string): Promise<void> {
  for (const move of await store.ofMigration(tx, migrationId)) {
    const from = move.how === 'brought' ? 'copying' : 'complete'
    if (!(await store.complete(tx, move.id, from))) throw new Error(`volume ${move.volumeName} did not move`)
    await poke(tx, 'volume-move', move.id)
    await pokeDependents(tx, move)
  }
  await completeSnapshots(tx, migrationId)
}

/** Pokes the workflows of the volume's moves after a host has reported an observation. */
export async function pokeMoveOf(tx: Tx, volumeId: string): Promise<void> {
  await pokeMany(tx, 'volume-move', await store.live(tx, volumeId))
}

/** Moves begin and are given up: rows and machines, in the caller's transaction. No host is asked. */
import type { Tx } from '../../db/db.ts'
import { createWorkflow, poke, pokeMany } from '../../engine/runner.ts'
import { minutes } from '../../lib/duration.ts'
import { newId } from '../../lib/ids.ts'
import { cancelGroup, completeSnapshots, lockGroup, pokeWhoWaits } from './group.ts'
import * as snapshots from './snapshot-store.ts'
import * as store from './store.ts'

export interface MoveRequest {
  readonly volumeId: string
  readonly targetHostId: string
  readonly targetPool: string
  /** The volume goes with the VM that has it. */
  readonly with?: { readonly migrationId: string; readonly how: store.VolumeMove['how'] }
  /** It becomes the target's with others that no VM has. */
  readonly groupId?: string
}

/** Its id; undefined when the volume is not where it was, or somebody else does something with it now. */
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

/** With the volumes that it has copies of, see `groupId`. Undefined when somebody needs it where it is. */
export async function startSnapshotMove(
  tx: Tx,
  request: Omit<snapshots.NewSnapshotMove, 'id'>,
): Promise<string | undefined> {
  const id = newId()
  if (!(await snapshots.beginSnapshot(tx, { ...request, id }))) return undefined
  await createWorkflow(tx, 'vm-snapshot-move', id, 'preparing', { deadlineMs: minutes(5) })
  return id
}

/** False when it is over, or the volume is on its new host already. What would have moved with it stays, too. */
export async function cancelMove(tx: Tx, id: string): Promise<boolean> {
  const groupId = (await store.byId(tx, id))?.groupId
  if (groupId) await lockGroup(tx, groupId)
  if (!(await store.cancel(tx, id))) return false
  await poke(tx, 'volume-move', id)
  if (groupId) await cancelGroup(tx, groupId)
  return true
}

/** What a migration took along stays where it is. */
export async function cancelMovesOf(tx: Tx, migrationId: string): Promise<void> {
  await lockGroup(tx, migrationId)
  for (const { id } of await store.ofMigration(tx, migrationId)) await cancelMove(tx, id)
  await cancelGroup(tx, migrationId)
}

/** The VM stands still for good: what it has written since the first copy may be sent. */
export async function finishCopies(tx: Tx, migrationId: string): Promise<void> {
  const moves = await store.ofMigration(tx, migrationId)
  await store.lock(
    tx,
    moves.map(move => move.volumeId),
  )
  for (const id of await store.makeFinal(tx, migrationId)) await poke(tx, 'volume-move', id)
}

/**
 * The volumes of a migration are the target's from this commit on, with the snapshots of VMs that have copies of them, and the VM
 * has them there.
 * @throws Error when one of the moves was given up; the commit must not happen then
 */
export async function completeMovesOf(tx: Tx, migrationId: string): Promise<void> {
  for (const move of await store.ofMigration(tx, migrationId)) {
    const from = move.how === 'brought' ? 'copying' : 'complete'
    if (!(await store.complete(tx, move.id, from))) throw new Error(`volume ${move.volumeName} did not move`)
    await poke(tx, 'volume-move', move.id)
    await pokeWhoWaits(tx, move)
  }
  await completeSnapshots(tx, migrationId)
}

/** What a host says of a volume by itself is a reason to look, also for its move. */
export async function pokeMoveOf(tx: Tx, volumeId: string): Promise<void> {
  await pokeMany(tx, 'volume-move', await store.live(tx, volumeId))
}

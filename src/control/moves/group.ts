/**
 * A move group: volumes, and the VM snapshots with copies of them, which switch to their new host in one commit. In a
 * group that moves with a VM, the migration triggers this commit; otherwise the last member to complete does.
 */
import type { Tx } from '../../db/db.ts'
import { poke, pokeMany } from '../../engine/runner.ts'
import * as snapshots from './snapshot-store.ts'
import * as store from './volume-store.ts'
import type { VolumeMove } from './volume-store.ts'

const underWay: ReadonlySet<string> = new Set(['preparing', 'copying', 'copied', 'complete'])

/**
 * Locks the volumes, snapshots and moves of a group, or of a migration, in the lock order of docs/engine.md. Required
 * before any of these rows is written, by callers that inspect or cancel the whole group.
 */
export async function lockGroup(tx: Tx, groupId: string): Promise<void> {
  await store.lockGroup(tx, groupId)
  await snapshots.lockGroup(tx, groupId)
}

/**
 * Switches the detached volumes and snapshots of a group to the target once all are complete; otherwise does nothing.
 * Groups of migrations are skipped. When two members complete at once, the lock on the volumes' rows ensures that the
 * second transaction sees the first.
 */
export async function settleGroup(tx: Tx, groupId: string): Promise<void> {
  await lockGroup(tx, groupId)
  const volumes = (await store.ofGroup(tx, groupId)).filter(move => underWay.has(move.state))
  const kept = (await snapshots.snapshotMovesOf(tx, groupId)).filter(move => underWay.has(move.state))
  const all = [...volumes, ...kept]
  if (all.some(move => move.migrationId !== null || move.want === 'cancel' || move.state !== 'complete')) return
  for (const move of volumes) {
    if (!(await store.complete(tx, move.id, 'complete'))) throw new Error(`volume ${move.volumeName} did not move`)
    await poke(tx, 'volume-move', move.id)
    await pokeDependents(tx, move)
  }
  await completeSnapshots(tx, groupId)
}

/**
 * Switches the group's snapshots to the target in this transaction. Snapshots whose move was cancelled stay on their
 * host.
 */
export async function completeSnapshots(tx: Tx, groupId: string): Promise<void> {
  for (const move of await snapshots.snapshotMovesOf(tx, groupId))
    if (await snapshots.complete(tx, move.id)) await poke(tx, 'vm-snapshot-move', move.id)
}

/** Cancels all moves of the group, so that all its volumes and snapshots stay on their host. */
export async function cancelGroup(tx: Tx, groupId: string, error: string | null = null): Promise<void> {
  await lockGroup(tx, groupId)
  for (const { id } of await store.ofGroup(tx, groupId))
    if (await store.cancel(tx, id, error)) await poke(tx, 'volume-move', id)
  for (const { id } of await snapshots.snapshotMovesOf(tx, groupId))
    if (await snapshots.cancel(tx, id, error)) await poke(tx, 'vm-snapshot-move', id)
}

export async function pokeDependents(tx: Tx, m: Pick<VolumeMove, 'volumeId'>): Promise<void> {
  for (const { kind, id } of await store.waiting(tx, m.volumeId)) await poke(tx, kind, id)
}

/** Pokes the workflows of the snapshot's moves after a host has reported an observation. */
export async function pokeMoveOfSnapshot(tx: Tx, snapshotId: string): Promise<void> {
  await pokeMany(tx, 'vm-snapshot-move', await snapshots.liveSnapshotMoves(tx, snapshotId))
}

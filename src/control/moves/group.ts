/**
 * What becomes another host's in one commit: volumes, and the snapshots of VMs that have copies of them. With a VM its migration
 * says when; without one, whoever is the last to be all there.
 */
import type { Tx } from '../../db/db.ts'
import { poke, pokeMany } from '../../engine/runner.ts'
import * as snapshots from './snapshot-store.ts'
import * as store from './store.ts'
import type { VolumeMove } from './store.ts'

const underWay: ReadonlySet<string> = new Set(['preparing', 'copying', 'copied', 'complete'])

/**
 * Volumes, snapshots and moves of a group (of volumes at rest, or of a migration), in the order of docs/engine.md and before anything
 * else of them is written: whoever looks at all of a group, or gives it up.
 */
export async function lockGroup(tx: Tx, groupId: string): Promise<void> {
  await store.lockGroup(tx, groupId)
  await snapshots.lockGroup(tx, groupId)
}

/**
 * Volumes at rest that are all there, with the snapshots that are, become the target's; nothing happens as long as one of them is
 * not. Those of a migration are not looked at. Of two that are the last at once the one sees the other: they hold the volumes' rows.
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
    await pokeWhoWaits(tx, move)
  }
  await completeSnapshots(tx, groupId)
}

/** The group's snapshots are the target's from this commit on; those that were given up meanwhile stay. */
export async function completeSnapshots(tx: Tx, groupId: string): Promise<void> {
  for (const move of await snapshots.snapshotMovesOf(tx, groupId))
    if (await snapshots.completeSnapshot(tx, move.id)) await poke(tx, 'vm-snapshot-move', move.id)
}

/** They stay where they are. */
export async function cancelGroup(tx: Tx, groupId: string, error: string | null = null): Promise<void> {
  await lockGroup(tx, groupId)
  for (const { id } of await store.ofGroup(tx, groupId))
    if (await store.cancel(tx, id, error)) await poke(tx, 'volume-move', id)
  for (const { id } of await snapshots.snapshotMovesOf(tx, groupId))
    if (await snapshots.cancelSnapshot(tx, id, error)) await poke(tx, 'vm-snapshot-move', id)
}

export async function pokeWhoWaits(tx: Tx, m: Pick<VolumeMove, 'volumeId'>): Promise<void> {
  for (const { kind, id } of await store.waiting(tx, m.volumeId)) await poke(tx, kind, id)
}

/** What a host says of a snapshot by itself is a reason to look, also for its move. */
export async function pokeMoveOfSnapshot(tx: Tx, snapshotId: string): Promise<void> {
  await pokeMany(tx, 'vm-snapshot-move', await snapshots.liveSnapshotMoves(tx, snapshotId))
}

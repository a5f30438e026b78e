/** Tests that a volume in a shared pool can be deleted through any host that can access the pool. */
import { afterAll, expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import type { SimHost } from '../../../test/support/sim-host.ts'
import { removeHost } from '../hosts/index.ts'
import {
  createVolume,
  createVolumeSnapshot,
  deleteVolume,
  deleteVolumeSnapshot,
  findVolume,
  findVolumeSnapshot,
} from './index.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db, projectId } = world
const hosts = [await world.addHost(), await world.addHost()]
const pool = { name: 'ceph', kind: 'rbd', shared: true, freeBytes: 2 ** 30, encrypted: false }
await world.rows(`UPDATE host SET pools = $1::jsonb RETURNING id`, JSON.stringify([pool]))

/** Creates a volume with a snapshot in the shared pool through one host, and makes both visible on the other host. */
async function made() {
  const { id } = await db.tx(tx => createVolume(tx, { projectId, name: 'data', sizeMib: 600, poolName: 'ceph' }))
  const snapshot = await db.tx(tx => createVolumeSnapshot(tx, id, { name: 'kept' }))
  await world.until(async () => (await findVolumeSnapshot(db, snapshot.id))?.state === 'ready')
  const volume = (await findVolume(db, id))!
  expect(volume.bound).toBe(false)
  const maker = hosts.find(host => host.id === volume.hostId) as SimHost
  const other = hosts.find(host => host !== maker) as SimHost
  other.storage.volumes.set(id, { ...maker.storage.volumes.get(id)! })
  other.storage.snapshots.set(snapshot.id, { ...maker.storage.snapshots.get(snapshot.id)! })
  return { id, snapshotId: snapshot.id, maker, other }
}

it('a volume in a shared pool and its snapshots are deleted through another host if its own host is lost, even if the pool has no free space', async () => {
  const { id, snapshotId, maker, other } = await made()
  maker.reachable = false
  await world.rows(`UPDATE host SET lost_at = now() WHERE id = $1 RETURNING id`, maker.id)
  await db.tx(tx => deleteVolumeSnapshot(tx, snapshotId))
  await world.until(async () => (await findVolumeSnapshot(db, snapshotId)) === undefined)
  expect(other.storage.snapshots.has(snapshotId)).toBe(false)
  expect((await findVolume(db, id))?.hostId).toBe(other.id)

  // Remove the volume's current host for good, and make its first host reachable again.
  maker.reachable = true
  await world.rows(`UPDATE host SET lost_at = NULL WHERE id = $1 RETURNING id`, maker.id)
  await db.tx(tx => removeHost(tx, other.id))
  other.reachable = false
  await db.tx(tx => deleteVolume(tx, id))
  await world.until(async () => (await findVolume(db, id)) === undefined)
  expect(maker.storage.volumes.has(id)).toBe(false)
})

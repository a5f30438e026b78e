/** Tests the sweep that moves detached volumes off draining hosts, when some of them cannot move. */
import { afterAll, describe, expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { newId } from '../../lib/ids.ts'
import { cordon } from '../hosts/index.ts'
import { leavingVolumes } from './drain-report.ts'
import { drainedVolumes } from './move.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db, projectId } = world
const hosts = [await world.addHost(), await world.addHost(), await world.addHost()]
const hostId = (index: number) => hosts[index]?.id ?? ''
const insert = {
  name: 'test.volumes',
  text: `INSERT INTO volume (id, project_id, name, size_mib, grown_mib, pool_name, host_id, state)
         SELECT id, $1, id, $2, $2, 'local', $3, 'ready' FROM unnest($4::uuid[]) AS id`,
}
const keep = {
  name: 'test.keep',
  text: `INSERT INTO vm_snapshot (id, project_id, app_id, deployment_id, vm_id, host_id, kind, name, state, vcpus, memory_mib, disk_mib, disks)
         VALUES ($1, $2, $3, $1, $1, $4, 'user', 'kept', 'ready', 1, 1, 1, $5::jsonb)`,
}
const forget = { name: 'test.forget', text: `DELETE FROM vm_snapshot WHERE id = $1` }
const clear = { name: 'test.clear', text: `UPDATE host SET draining = false WHERE id = $1` }
const volumes = async (count: number, sizeMib: number, host: number) => {
  const ids = Array.from({ length: count }, newId)
  await db.run(insert, [projectId, sizeMib, hostId(host), ids])
  return ids
}
const round = { now: new Date(), signal: new AbortController().signal }
const leaving = async (from: string) =>
  (
    await world.rows<{ id: string }>(
      `SELECT volume_id AS id FROM volume_move WHERE source_host_id = $1 ORDER BY volume_id`,
      from,
    )
  ).map(row => row.id)

describe('the sweep that moves detached volumes off draining hosts', () => {
  it('skips volumes for which no other host has space, and those whose snapshots no other host can load; the drain report gives the reasons', async () => {
    const source = await world.addHost()
    const ids = async (count: number, sizeMib: number) => {
      const made = Array.from({ length: count }, newId)
      await db.run(insert, [projectId, sizeMib, source.id, made])
      return made
    }
    // Create the volumes that cannot move first, so that the sweep finds them first. There are more of each kind than
    // the 50 volumes that the sweep inspects in one round.
    const kept = await ids(55, 64)
    const large = await ids(55, 2 ** 30)
    const [free = ''] = await ids(1, 64)
    const app = await world.app()
    await db.run(keep, [
      newId(),
      projectId,
      app.id,
      source.id,
      JSON.stringify(kept.map(volumeId => ({ volumeId, copied: true }))),
    ])
    await db.tx(tx => cordon(tx, source.id, { cordoned: true, draining: true }))
    const before = await leavingVolumes(db, world.deps, source)
    expect(before).toHaveLength(100)
    expect(before.slice(0, kept.length).map(one => one.volumeId)).toEqual(kept)
    expect(before[0]).toMatchObject({ state: 'staying' })
    expect(before[0]?.reason).toContain(`Snapshot kept of a VM of ${app.name} was made by`)
    expect(before[0]?.reason).toContain('Delete the snapshot, or add a host like this one.')
    expect(before.find(one => one.volumeId === large[0])?.reason).toContain('No other host has a storage pool')
    const counts = await drainedVolumes(world.deps).run(round)
    expect(counts).toMatchObject({ moved: 1, refused: 0 })
    expect(await leaving(source.id)).toEqual([free])
    await db.run(clear, [source.id])
  })

  it('leaves volumes that must move together if no other host has space for all of them; the drain report names the whole group', async () => {
    const source = await world.addHost()
    const ids = [newId(), newId()]
    await db.run(insert, [projectId, 600 * 1024, source.id, ids])
    const app = await world.app()
    const disks = ids.map(volumeId => ({ volumeId, copied: true }))
    const snapshotId = newId()
    await db.run(keep, [snapshotId, projectId, app.id, source.id, JSON.stringify(disks)])
    const reported = await leavingVolumes(db, world.deps, source)
    expect(reported.map(one => one.state)).toEqual(['staying', 'staying'])
    expect(reported[0]?.reason).toContain(`with room for it with volume ${ids[1]}`)
    await db.run(forget, [snapshotId])
    const apart = await leavingVolumes(db, world.deps, source)
    expect(apart.map(one => one.state)).toEqual(['waiting', 'waiting'])
  })

  it('continues after volumes for which no other host has space, and after an error with one volume', async () => {
    // Create the volumes that cannot move first, so that the sweep finds them first.
    await volumes(210, 2 ** 30, 0)
    const [first = '', second = ''] = await volumes(2, 64, 1)
    for (const index of [0, 1]) await db.tx(tx => cordon(tx, hostId(index), { cordoned: true, draining: true }))
    let broken = 0
    const breaking: typeof db = {
      ...db,
      tx: work => (broken++ === 0 ? Promise.reject(new Error('the connection broke')) : db.tx(work)),
    }
    const counts = await drainedVolumes({ ...world.deps, db: breaking }).run(round)
    expect(counts).toMatchObject({ moved: 2, refused: 1 })
    expect(await leaving(hostId(1))).toEqual([first, second])
  })
})

/** Volumes at rest leave hosts that are emptied, whatever holds up some of them. */
import { afterAll, describe, expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { newId } from '../../lib/ids.ts'
import { cordon } from '../hosts/index.ts'
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
const volumes = async (count: number, sizeMib: number, host: number) => {
  const ids = Array.from({ length: count }, newId)
  await db.run(insert, [projectId, sizeMib, hostId(host), ids])
  return ids
}
const round = { now: new Date(), signal: new AbortController().signal }
const leaving = async () =>
  (await world.rows<{ id: string }>(`SELECT volume_id AS id FROM volume_move ORDER BY volume_id`)).map(row => row.id)

describe('hosts that are emptied', () => {
  it('do not wait for one whose volumes have no room elsewhere, nor for one that cannot be looked at', async () => {
    // Made first, so that they come first in every order.
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
    expect(await leaving()).toEqual([first, second])
  })
})

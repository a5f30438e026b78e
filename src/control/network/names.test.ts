/** Tests which DNS names and addresses guests get from database rows. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type ComputeWorld, computeWorld, type TestApp } from '../../../test/support/compute.ts'
import { until } from '../../../test/support/wait.ts'
import { newId } from '../../lib/ids.ts'
import type { NetworkName } from './hosts.ts'
import { networkState, projectNetworks } from './network-store.ts'

let world: ComputeWorld
beforeAll(async () => {
  world = await computeWorld()
  await world.addHost()
})
afterAll(() => world[Symbol.asyncDispose]())

const namesNow = async () =>
  Object.fromEntries((await networkState(world.db)).names.map(({ name, addresses }) => [name, addresses]))
const vmsOf = (app: TestApp) =>
  world.rows<{ id: string; address: string }>(
    `SELECT v.id, v.ipv6_address AS address FROM vm v JOIN app a ON a.active_deployment_id = v.deployment_id
     WHERE a.id = $1 ORDER BY v.id`,
    app.id,
  )

async function served(replicas: number): Promise<TestApp> {
  const app = await world.app({ replicas })
  await world.deploy(app, { replicas })
  await world.until(async () => ((await namesNow())[app.name] ?? []).length === replicas)
  return app
}

it("an app's name resolves to all its healthy replicas in the order of their ids, and to no others", async () => {
  const app = await served(3)
  const [first, second, third] = await vmsOf(app)
  expect((await namesNow())[app.name]).toEqual([first?.address, second?.address, third?.address])
  await world.rows(`UPDATE vm SET healthy = false WHERE id = $1`, second?.id ?? '')
  expect((await namesNow())[app.name]).toEqual([first?.address, third?.address])
  // A name without addresses must still be listed: the DNS response for it differs from that for an unknown name.
  await world.rows(
    `UPDATE vm SET healthy = false WHERE deployment_id IN (SELECT deployment_id FROM vm WHERE id = $1)`,
    first?.id ?? '',
  )
  expect((await namesNow())[app.name]).toEqual([])
})

it("a database's name resolves to the database, unless an app has the same name", async () => {
  const server = await served(1)
  const [vm] = await vmsOf(server)
  await world.rows(`UPDATE app SET owner = 'database' WHERE id = $1`, server.id)
  expect(await namesNow()).not.toHaveProperty(server.name)
  const hex = () => newId().replaceAll('-', '')
  const [database, branch] = [newId(), newId()]
  await world.rows(
    `INSERT INTO database (id, project_id, name, engine, engine_version, backend, vcpus, memory_mib, disk_mib, password, tenant_id)
     VALUES ($1, $2, 'orders', 'postgres', 15, 'volume', 1, 512, 1024, ''::bytea, $3)`,
    ...[database, world.projectId, hex()],
  )
  await world.rows(
    `INSERT INTO branch (id, database_id, project_id, name, is_current, timeline_id, app_id)
     VALUES ($1, $2, $3, 'main', true, $4, $5)`,
    ...[branch, database, world.projectId, hex(), server.id],
  )
  expect((await namesNow())['orders']).toEqual([vm?.address])

  const app = await served(1)
  await world.rows(`UPDATE database SET name = $1 WHERE id = $2`, app.name, database)
  expect((await namesNow())[app.name]).toEqual((await vmsOf(app)).map(({ address }) => address))
})

it("reading one project's networks gives the same rows as reading all projects", async () => {
  await served(2)
  const all = await networkState(world.db)
  const one = await projectNetworks(world.db, [world.projectId])
  const byName = (rows: readonly NetworkName[]) => rows.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  expect(byName(one.names)).toEqual(byName(all.names))
  expect(one.vms.toSorted((a, b) => (a.address < b.address ? -1 : 1))).toEqual(
    all.vms.toSorted((a, b) => (a.address < b.address ? -1 : 1)),
  )
  expect(one.names.length).toBeGreaterThan(0)
  expect(await projectNetworks(world.db, [newId()])).toMatchObject({ vms: [], names: [] })
})

it('a changed name, placement or health causes a notification for its project only; a changed mesh causes one for everything', async () => {
  const reported: string[] = []
  const listening = await world.db.listen('network', payload => reported.push(payload))
  /** Waits until all notifications of earlier commits are in `reported`. They arrive in the order of the commits. */
  const heard = async () => {
    await world.rows(`SELECT pg_notify('network', 'end')`)
    await until(() => reported.includes('end'), { what: 'the last notification' })
    return reported.splice(0).filter(one => one !== 'end')
  }
  const app = await served(1)
  const [vm] = await vmsOf(app)
  const host = await world.addHost()
  const changes: [change: string, reported: string][] = [
    [`UPDATE vm SET healthy = false WHERE id = '${vm?.id}'`, world.projectId],
    [`UPDATE app SET name = name || '-2' WHERE id = '${app.id}'`, world.projectId],
    [`UPDATE app SET want = 'deleted' WHERE id = '${app.id}'`, world.projectId],
    [`DELETE FROM vm WHERE id = '${vm?.id}'`, world.projectId],
    [`UPDATE database SET name = 'invoices' WHERE name = 'orders' OR name LIKE 'app%'`, world.projectId],
    [`UPDATE branch SET want = 'deleted' WHERE want = 'live'`, world.projectId],
    [`UPDATE host SET removed_at = now() WHERE id = '${host.id}'`, ''],
    [`UPDATE private_network SET ipv6_prefix = ipv6_prefix`, ''],
  ]
  for (const [change, payload] of changes) {
    await heard()
    expect((await world.rows(`${change} RETURNING 1 AS one`)).length, change).toBe(1)
    expect(await heard(), change).toEqual([payload])
  }
  await listening.stop()
})

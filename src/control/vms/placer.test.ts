/**
 * Tests concurrent placements. workflow.test.ts tests single placements, and moves/lock-order.test.ts the lock order.
 */
import { afterAll, expect, it } from 'vitest'
import { computeWorld, type TestApp } from '../../../test/support/compute.ts'
import type { Db } from '../../db/db.ts'
import { attachVolume, createVolume } from '../volumes/index.ts'
import { createRun } from '../runs/index.ts'
import * as disks from './disk-store.ts'
import { createPlacer } from './placer.ts'
import * as vms from './store.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db, projectId } = world
await world.addHost()

const vmOf = async (app: TestApp) => (await vms.byId(db, (await world.deploy(app)).vmIds[0]!))!
const withVolume = async () => {
  const app = await world.app()
  await world.rows(`UPDATE app SET max_replicas = 1 WHERE id = $1`, app.id)
  const { id: volumeId } = await db.tx(tx => createVolume(tx, { projectId, name: app.name, sizeMib: 64 }))
  const attached = { projectId, appId: app.id, volumeId, mountPoint: '/data', accessMode: 0, by: 'user' } as const
  await db.tx(tx => attachVolume(tx, attached))
  return vmOf(app)
}

it('builtHostId is the host that built the image of a VM, if the image is not in a registry', async () => {
  const app = await world.app()
  const vm = await vmOf(app)
  const { hostId } = (await world.rows<{ hostId: string }>(`SELECT id AS "hostId" FROM host`))[0]!
  const image = `oci:app-${app.id}:sha256-0`
  const found = async (of: string) => {
    await world.rows(`UPDATE deployment SET image = $2 WHERE id = $1`, vm.deploymentId, of)
    return (await vms.byId(db, vm.id))?.builtHostId
  }
  expect(await found(image)).toBeNull()
  await world.rows(
    `INSERT INTO build (id, project_id, app_id, deployment_id, host_id, image, vcpus, memory_mib, disk_mib, git_url, git_branch, git_commit)
     VALUES (gen_random_uuid(), $1, $2, $3, $4, $5, 1, 1024, 1024, '', '', '')`,
    ...[projectId, app.id, vm.deploymentId, hostId, image],
  )
  expect(await found(image)).toBe(hostId)
  for (const other of [`oci:app-${app.id}:sha256-1`, 'oci:app-sample', 'oci:app-', `registry.example/${app.id}`])
    expect(await found(other), other).toBeNull()
})

it('VMs without volumes are placed in one transaction, and each VM with volumes in its own, so that an error of one affects no other', async () => {
  const [plain, first, second] = [await vmOf(await world.app()), await withVolume(), await withVolume()]
  const held = Promise.withResolvers<void>()
  let transactions = 0
  // Let the second transaction fail. The first one places the VM without volumes; the second, a VM with a volume.
  const tx: Db['tx'] = async work => {
    if (++transactions !== 2) return db.tx(work)
    await held.promise
    throw new Error('the connection is lost')
  }
  const place = createPlacer({ ...world.deps, db: { ...db, tx } })
  const all = [plain, first, second].map(vm => place(vm))
  const ends = Promise.allSettled(all)
  expect(await all[0]).toEqual({ is: 'placed' })
  held.resolve()
  const [, failed, placed] = await ends
  expect(failed).toMatchObject({ status: 'rejected', reason: { message: 'the connection is lost' } })
  expect(placed).toMatchObject({ status: 'fulfilled', value: { is: 'placed' } })
  expect(transactions).toBe(3)
})

it('the VM of a run gets only those volumes of the app that are attached read-only', async () => {
  const app = await world.app()
  await world.rows(`UPDATE app SET max_replicas = 1 WHERE id = $1`, app.id)
  for (const [mountPoint, accessMode] of [
    ['/written', 0],
    ['/read', 1],
  ] as const) {
    const volume = { projectId, name: `${app.name}${mountPoint.slice(1)}`, sizeMib: 64 }
    const { id: volumeId } = await db.tx(tx => createVolume(tx, volume))
    const attached = { projectId, appId: app.id, volumeId, mountPoint, accessMode, by: 'user' } as const
    await db.tx(tx => attachVolume(tx, attached))
  }
  const { id: deploymentId, vmIds } = await world.deploy(app)
  const of = {
    projectId,
    appId: app.id,
    deploymentId,
    vcpus: 1,
    memoryMib: 512,
    diskMib: 64,
    ipv6Prefix: 'fd00:1:2:3::/64',
  }
  const run = { accountId: null, purpose: 'command', command: ['true'], timeoutSeconds: 60, of } as const
  const runId = await db.tx(tx => createRun(tx, run))
  const [vm] = await world.rows<{ id: string }>(`SELECT id FROM vm WHERE run_id = $1`, runId)
  const needed = await disks.needed(db, [vmIds[0]!, vm!.id])
  const of1 = (id: string) => needed.filter(disk => disk.vmId === id).map(disk => disk.name.replace(app.name, ''))
  expect([of1(vmIds[0]!).toSorted(), of1(vm!.id)]).toEqual([['read', 'written'], ['read']])
})

/**
 * Tests that VM snapshots whose guest only reads a volume move with the volume. The move changes neither the volume's
 * content nor the attach generation that identifies this content.
 */
import { afterAll, expect, it, vi } from 'vitest'
import { computeWorld, shape } from '../../../test/support/compute.ts'
import { cordon, listHosts, reserve } from '../hosts/index.ts'
import { requestRestore, startFork } from '../vm-operations/index.ts'
import { assertReady } from '../vm-operations/restore.ts'
import { createSnapshot } from '../vms/index.ts'
import { chooseMove, coMovedOf, moveObstacle, startMigration } from '../migrations/index.ts'
import * as snapshots from '../vms/snapshot-store.ts'
import * as vms from '../vms/store.ts'
import { attachVolume, createVolume, drainedVolumes, findVolume, lockRetained } from '../volumes/index.ts'
import { moveVolume } from '../volumes/move.ts'

vi.setConfig({ testTimeout: 120_000 })
const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db, projectId } = world
const hosts = [await world.addHost({ vcpus: 1000 }), await world.addHost({ vcpus: 1000 })]
const other = (id: string) => hosts.find(host => host.id !== id)!
const hostOf = (id: string | null | undefined) => hosts.find(host => host.id === id)!
const rowOf = async (id: string) => (await listHosts(db, 3600)).find(host => host.id === id)!
let made = 0

async function snapshotOf(vmId: string, deploymentId: string): Promise<string> {
  const vm = (await vms.byId(db, vmId))!
  const of = { deploymentId, vmId, hostId: vm.hostId!, kind: 'user' as const, name: `s${++made}` }
  const id = await db.tx(tx => createSnapshot(tx, { ...vm, ...of }))
  await world.until(async () => (await snapshots.byId(db, id))?.state === 'ready')
  return id
}

/** Creates a VM that has a volume attached read-only, and a snapshot of the VM. */
async function reading() {
  const { id: volumeId } = await db.tx(tx => createVolume(tx, { projectId, name: `v${++made}`, sizeMib: 64 }))
  const app = await world.app()
  const mount = { mountPoint: '/data', accessMode: 1, by: 'user' } as const
  await db.tx(tx => attachVolume(tx, { projectId, appId: app.id, volumeId, ...mount }))
  const { id: deploymentId, vmIds } = await world.deploy(app)
  const vmId = vmIds[0]!
  await world.until(async () => (await vms.byId(db, vmId))?.healthy === true)
  const snapshotId = await snapshotOf(vmId, deploymentId)
  expect((await snapshots.byId(db, snapshotId))?.disks).toMatchObject([{ volumeId, readOnly: true, copied: false }])
  const { hostId } = (await vms.byId(db, vmId))!
  return {
    app,
    deploymentId,
    vmId,
    volumeId,
    snapshotId,
    hostId: hostId!,
    memory: hostOf(hostId).vms.get(vmId)!.memory,
  }
}
type Reading = Awaited<ReturnType<typeof reading>>
const arrived = (hostId: string, { snapshotId, volumeId }: Reading) =>
  world.until(async () => {
    const [snapshot, volume] = [await snapshots.byId(db, snapshotId), await findVolume(db, volumeId)]
    const rests = snapshot?.moving === false && volume?.state === 'ready' && volume.movingTo === null
    return rests && snapshot?.hostId === hostId && volume?.hostId === hostId
  }, 100)
/** Expects that a fork of the snapshot resumes with the snapshot's memory and has the volume attached. */
async function goesOn({ snapshotId, volumeId, memory }: Reading) {
  const app = await world.app()
  const { vmIds } = await db.tx(async tx => {
    const snapshot = (await snapshots.byId(tx, snapshotId))!
    assertReady(snapshot)
    return startFork(tx, { ...shape, ipv6Prefix: 'fd00:1:2:3::/64' }, snapshot, await lockRetained(tx, snapshot), {
      app,
      replicas: 1,
    })
  })
  await world.until(async () => (await vms.byId(db, vmIds[0]!))?.healthy === true)
  const vm = (await vms.byId(db, vmIds[0]!))!
  const found = hostOf(vm.hostId).vms.get(vm.id)!
  expect(found.memory).toBe(memory)
  expect(found.disks).toMatchObject([{ volumeId, state: 'attached' }])
  await world.deploymentsEnd(app)
  await world.rows(`DELETE FROM volume_attachment WHERE app_id = $1 RETURNING id`, app.id)
}

it('a snapshot leaves a draining host together with the volume that it reads, and can be forked on the new host', async () => {
  const one = await reading()
  await world.rows(`UPDATE deployment SET want = 'stopped' WHERE id = $1 RETURNING id`, one.deploymentId)
  await world.until(async () => (await vms.byId(db, one.vmId)) === undefined)
  await db.tx(tx => cordon(tx, one.hostId, { cordoned: true, draining: true }))
  await drainedVolumes(world.deps).run({ now: new Date(), signal: new AbortController().signal })
  await arrived(other(one.hostId).id, one)
  await db.tx(tx => cordon(tx, one.hostId, { cordoned: false, draining: false }))
  expect(hostOf(one.hostId).snapshots.has(one.snapshotId)).toBe(false)
  await goesOn(one)
})

it('a snapshot moves together with the VM that reads the volume, and the VM can be restored on the new host', async () => {
  const one = await reading()
  const vm = (await vms.byId(db, one.vmId))!
  const [source, target] = [await rowOf(one.hostId), await rowOf(other(one.hostId).id)]
  const coMoved = await coMovedOf(db, vm.id)
  expect(moveObstacle(vm, coMoved)).toBeUndefined()
  const choice = chooseMove(vm, source, target, coMoved)
  if (!('plan' in choice)) throw new Error(choice.why)
  expect(choice.plan.method).toBe('stop-and-copy')
  await db.tx(async tx => {
    expect(await reserve(tx, target.id, vm)).toBe(true)
    const ends = { sourceHostId: source.id, targetHostId: target.id, method: choice.plan.method, withVolumes: true }
    return startMigration(tx, { ...vm, vmId: vm.id, ...ends }, choice.plan.volumes)
  })
  await arrived(target.id, one)
  await world.until(async () => (await vms.byId(db, one.vmId))?.healthy === true)
  const there = () => hostOf(target.id).vms.get(one.vmId)!
  expect(there().memory).not.toBe(one.memory)
  await db.tx(async tx => requestRestore(tx, (await snapshots.byId(tx, one.snapshotId))!))
  await world.until(async () => there().memory === one.memory && (await vms.byId(db, one.vmId))?.healthy === true)
  await goesOn(one)
})

it('a snapshot is invalid after the volume that it reads was written to, and then does not prevent a move of the volume', async () => {
  const one = await reading()
  await world.rows(`UPDATE deployment SET want = 'stopped' WHERE id = $1 RETURNING id`, one.deploymentId)
  await world.until(async () => (await vms.byId(db, one.vmId)) === undefined)
  await world.rows(
    `UPDATE volume SET attach_generation = attach_generation + 1 WHERE id = $1 RETURNING id`,
    one.volumeId,
  )
  await db.tx(async tx => moveVolume(tx, one.volumeId, await rowOf(other(one.hostId).id), await rowOf(one.hostId)))
  await world.until(async () => (await findVolume(db, one.volumeId))?.hostId === other(one.hostId).id)
  expect((await snapshots.byId(db, one.snapshotId))?.hostId).toBe(one.hostId)
  const refused = db.tx(async tx => lockRetained(tx, (await snapshots.byId(tx, one.snapshotId))!))
  await expect(refused).rejects.toMatchObject({ code: 'invalid_state' })
})

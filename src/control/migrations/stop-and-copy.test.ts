/** Tests moves of VMs on hypervisors without live migration, such as gVisor, and how they affect later starts. */
import { afterAll, expect, it } from 'vitest'
import { computeWorld, shape } from '../../../test/support/compute.ts'
import { simGvisor, simQemu } from '../../../test/support/sim-offers.ts'
import { listHosts, reserve } from '../hosts/index.ts'
import { startFork } from '../vm-operations/index.ts'
import { createSnapshot, listSnapshots } from '../vms/index.ts'
import * as vms from '../vms/store.ts'
import { cancelMigration, chooseMove, coMovedOf, startMigration } from './index.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db, projectId } = world
const source = await world.addHost({ offers: [simGvisor] })
// This host offers both hypervisors and prefers QEMU for new VMs.
const target = await world.addHost({ offers: [simGvisor, simQemu] })
const vmOnly = await world.addHost({ offers: [simQemu] })
const holding = (vmId: string) =>
  world.hosts.filter(host => ['running', 'paused'].includes(host.vms.get(vmId)?.state ?? ''))

async function started() {
  const app = await world.app()
  const { id: deploymentId, vmIds } = await world.deploy(app, { hypervisor: 4 })
  const vmId = vmIds[0]!
  await world.rows(`UPDATE vm SET pinned_host_id = $2 WHERE id = $1 RETURNING id`, vmId, source.id)
  await world.until(async () => (await vms.byId(db, vmId))?.healthy === true)
  return { app, deploymentId, vm: (await vms.byId(db, vmId))!, memory: source.vms.get(vmId)!.memory }
}

async function move({ id: vmId, want, hypervisor, ...vm }: vms.Vm) {
  const [from, to] = [source, target].map(({ id }) => id)
  const hosts = await listHosts(db, 60)
  const [here, there] = [from, to].map(id => hosts.find(host => host.id === id)!)
  const choice = chooseMove({ want, hypervisor }, here!, there!, await coMovedOf(db, vmId))
  expect(choice).toEqual({ plan: { method: 'stop-and-copy', volumes: [], withVolumes: false } })
  return db.tx(async tx => {
    expect(await reserve(tx, target.id, vm)).toBe(true)
    const { deploymentId, appId, vcpus, memoryMib, diskMib } = vm
    const ids = { projectId, appId, deploymentId, vmId, sourceHostId: source.id, targetHostId: target.id }
    return startMigration(tx, { ...ids, vcpus, memoryMib, diskMib, method: 'stop-and-copy' })
  })
}
const isOver = async (id: string) =>
  (await world.rows(`SELECT id FROM migration WHERE id = $1 AND ended_at IS NOT NULL`, id)).length > 0

it('after a move by stop-and-copy, exactly one VM runs, and forks of it run on the same hypervisor', async () => {
  const { deploymentId, vm, memory } = await started()
  const migration = await move(vm)
  let stoodStill = false
  await world.until(async () => {
    expect(holding(vm.id).length).toBeLessThanOrEqual(1)
    stoodStill ||= source.vms.get(vm.id)?.stopped === true
    return isOver(migration)
  })
  expect(stoodStill).toBe(true)
  await world.until(async () => (await vms.byId(db, vm.id))?.healthy === true)
  expect(holding(vm.id)).toEqual([target])
  expect(target.vms.get(vm.id)).toMatchObject({ memory, desired: { spec: { hypervisor: 'gvisor' } } })

  const of = { deploymentId, vmId: vm.id, hostId: target.id }
  const id = await db.tx(tx => createSnapshot(tx, { ...vm, ...of, kind: 'user', name: 'kept' }))
  const find = async () => (await listSnapshots(db, deploymentId)).find(one => one.id === id)!
  await world.until(async () => (await find()).state === 'ready')
  const app = await world.app()
  const forked = await db.tx(async tx =>
    startFork(tx, { ...shape, ipv6Prefix: 'fd00:1:2:3::/64' }, await find(), [], { app, replicas: 1 }),
  )
  const fork = forked.vmIds[0]!
  await world.until(async () => (await vms.byId(db, fork))?.healthy === true)
  expect(target.vms.get(fork)).toMatchObject({ memory, desired: { spec: { hypervisor: 'gvisor' } } })
  await world.abandonAll()
})

it('a VM whose move by stop-and-copy is cancelled while the VM is stopped continues on its source host', async () => {
  const { vm, memory } = await started()
  const migration = await move(vm)
  await world.until(async () => source.vms.get(vm.id)?.stopped === true)
  expect(source.vms.get(vm.id)?.healthy).toBe(false)
  expect(await db.tx(tx => cancelMigration(tx, migration))).toBe(true)
  await world.until(() => isOver(migration))
  await world.until(async () => (await vms.byId(db, vm.id))?.healthy === true)
  const [host, ...others] = holding(vm.id)
  expect(others).toEqual([])
  expect(host?.vms.get(vm.id)?.memory).toBe(memory)
})

it('a VM on gVisor cannot move to a host without it', async () => {
  const { vm } = await started()
  const hosts = await listHosts(db, 60)
  const [here, there] = [source, vmOnly].map(({ id }) => hosts.find(host => host.id === id)!)
  expect(chooseMove(vm, here!, there!, await coMovedOf(db, vm.id))).toMatchObject({ why: /does not offer gvisor/ })
})

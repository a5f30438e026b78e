/** Tests snapshots of VMs without volumes under every fault, and VMs that start from them. */
import { afterAll, describe, expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { crashMatrix, faults } from '../../../test/support/crash-matrix.ts'
import { createSnapshot, dropSnapshot, restoreVm } from './index.ts'
import { poke } from '../../engine/runner.ts'
import * as snapshots from './snapshot-store.ts'
import * as store from './store.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db } = world
const host = await world.addHost()
const app = await world.app()
const { id: deploymentId, vmIds } = await world.deploy(app)
const vmId = vmIds[0]!
await world.until(async () => (await store.byId(db, vmId))?.healthy === true)

let made = 0
async function snapshot() {
  const vm = (await store.byId(db, vmId))!
  const id = await db.tx(tx =>
    createSnapshot(tx, { ...vm, deploymentId, vmId, hostId: vm.hostId!, kind: 'user', name: `s${++made}` }),
  )
  return { id, rounds: 0 }
}
const drop = ({ id }: { id: string }) => db.tx(tx => dropSnapshot(tx, id))

const cases = crashMatrix({
  db,
  workflow: world.workflows.snapshot,
  makeSubject: snapshot,
  remove: drop,
  advance: async (s, phase) => {
    await world.hostsMove()
    if (phase === 'keeping' && ++s.rounds > 2) await drop(s)
  },
  check: async ({ id }) => {
    expect(host.snapshots.has(id)).toBe(false)
    expect(await snapshots.byId(db, id)).toBeUndefined()
  },
})

describe('the crash matrix of a VM snapshot', () => {
  it('has a case for every phase with every fault', () =>
    expect(cases.length).toBe(Object.keys(world.workflows.snapshot.phases).length * faults.length))
  it.each(cases)('$name', ({ run }) => run())
})

describe('a VM snapshot', () => {
  const ready = async () => {
    const { id } = await snapshot()
    await world.until(async () => (await snapshots.byId(db, id))?.state === 'ready')
    return id
  }
  const vm = () => host.vms.get(vmId)!

  it("restores the VM's memory each time that a restore is requested", async () => {
    const before = vm().memory
    const id = await ready()
    for (const change of ['one', 'two']) {
      vm().memory = `changed: ${change}`
      await db.tx(async tx => {
        await restoreVm(tx, vmId, id)
        await poke(tx, 'vm', vmId)
      })
      await world.until(async () => vm().memory === before && (await store.byId(db, vmId))?.healthy === true)
    }
  })

  it("fails with the host's reason if the host refuses to take it", async () => {
    const { id } = await snapshot()
    await db.tx(tx =>
      tx.run({ name: 'test.otherVm', text: 'UPDATE vm_snapshot SET vm_id = gen_random_uuid() WHERE id = $1' }, [id]),
    )
    await world.until(async () => (await snapshots.byId(db, id))?.state === 'failed')
    expect((await snapshots.byId(db, id))?.error).toContain('does not run')
  })

  it('is removed together with its deployment', async () => {
    await ready()
    await world.deploymentsEnd(app)
    await world.until(async () => (await world.rows(`SELECT id FROM vm_snapshot`)).length === 0)
    expect(host.snapshots.size).toBe(0)
  })
})

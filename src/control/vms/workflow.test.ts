/**
 * Crash matrix of the VM workflow: after any fault in any phase, nothing remains of the VM, and its resources are
 * released exactly once.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { crashMatrix, faults } from '../../../test/support/crash-matrix.ts'
import { reserve } from '../hosts/index.ts'
import { setVmWant } from './index.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db } = world
const host = await world.addHost()
const app = await world.app()

const roundsSteady = new Map<string, number>()
const remove = ({ id }: { id: string }) => db.tx(tx => setVmWant(tx, id, 'absent'))

const cases = crashMatrix({
  db,
  workflow: world.workflows.vm,
  makeSubject: async () => {
    const { vmIds } = await world.deploy(app)
    return { id: vmIds[0]! }
  },
  remove,
  advance: async (subject, phase) => {
    await world.hostsMove()
    if (phase !== 'steady') return
    const rounds = (roundsSteady.get(subject.id) ?? 0) + 1
    roundsSteady.set(subject.id, rounds)
    // Pause and resume the VM while its workflow is in the phase `steady`, so that the test includes changes of the
    // desired state.
    if (rounds === 2) await db.tx(tx => setVmWant(tx, subject.id, 'paused'))
    if (rounds === 4) await db.tx(tx => setVmWant(tx, subject.id, 'running'))
    if (rounds >= 6) await remove(subject)
  },
  check: async ({ id }) => {
    expect(host.vms.has(id)).toBe(false)
    expect(await world.rows(`SELECT id FROM vm WHERE id = $1`, id)).toEqual([])
    expect(await world.used()).toEqual({ vcpus: 0, memoryMib: 0, diskMib: 0 })
  },
})

describe('the crash matrix of the VM workflow', () => {
  it('has a case for every phase with every fault', () =>
    expect(cases.length).toBe(Object.keys(world.workflows.vm.phases).length * faults.length))
  it.each(cases)('$name', ({ run }) => run())
})

describe('reserving capacity of a host', () => {
  const small = async (vcpus: number) => world.addHost({ vcpus, memoryMib: 100_000 })
  const race = (hostId: string, tries: number, take: typeof reserve = reserve) =>
    Promise.all(
      Array.from({ length: tries }, () =>
        db.tx(tx => take(tx, hostId, { vcpus: 1, memoryMib: 512, diskMib: 1 })).catch(() => false),
      ),
    )

  it('succeeds only for as many concurrent requests as the host has capacity for', async () => {
    const { id } = await small(5)
    expect((await race(id, 40)).filter(Boolean)).toHaveLength(5)
  })

  it("would exceed the host's capacity without the condition in the UPDATE", async () => {
    const { id } = await small(5)
    const unconditional: typeof reserve = async (tx, hostId, room) =>
      (await tx.run(
        {
          name: 'test.unconditional',
          text: 'UPDATE host SET used_vcpus = used_vcpus + $2, used_memory_mib = used_memory_mib + $3, used_disk_mib = used_disk_mib + $4 WHERE id = $1',
        },
        [hostId, room.vcpus, room.memoryMib, room.diskMib],
      )) === 1
    expect((await race(id, 40, unconditional)).filter(Boolean).length).toBeGreaterThan(5)
  })
})

/**
 * Crash matrix (each phase with each fault) of migrating a VM: in the end the VM runs exactly once, with its memory
 * intact.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { crashMatrix, faults } from '../../../test/support/crash-matrix.ts'
import { reserve } from '../hosts/index.ts'
import { setVmWant } from '../vms/index.ts'
import { cancelMigration, startMigration } from '../migrations/index.ts'
import * as store from '../vms/store.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db } = world
const hosts = [await world.addHost(), await world.addHost()]
const app = await world.app()

interface Subject {
  readonly id: string
  readonly vmId: string
  readonly memory: string
  readonly source: string
  readonly target: string
}

const hostOf = (id: string | null | undefined) => hosts.find(host => host.id === id)
const holding = (vmId: string) => hosts.filter(host => ['running', 'paused'].includes(host.vms.get(vmId)?.state ?? ''))

async function migrate(vmId?: string): Promise<Subject> {
  const id = vmId ?? (await world.deploy(app)).vmIds[0]!
  await world.until(async () => (await store.byId(db, id))?.healthy === true)
  const vm = (await store.byId(db, id))!
  const target = hosts.find(host => host.id !== vm.hostId)!
  const migrationId = await db.tx(async tx => {
    expect(await reserve(tx, target.id, vm)).toBe(true)
    return startMigration(tx, {
      projectId: vm.projectId,
      appId: vm.appId,
      deploymentId: vm.deploymentId,
      vmId: id,
      method: 'live',
      sourceHostId: vm.hostId!,
      targetHostId: target.id,
      vcpus: vm.vcpus,
      memoryMib: vm.memoryMib,
      diskMib: vm.diskMib,
    })
  })
  return {
    id: migrationId,
    vmId: id,
    memory: hostOf(vm.hostId)!.vms.get(id)!.memory,
    source: vm.hostId!,
    target: target.id,
  }
}
const endOf = async (s: Subject) =>
  (
    await world.rows<{ state: string; downtime: number | null }>(
      `SELECT state, downtime_ms AS downtime FROM migration WHERE id = $1`,
      s.id,
    )
  )[0]
const advance = async (s: Subject) => {
  // The guest must never run in two places at the same time.
  expect(holding(s.vmId).length).toBeLessThanOrEqual(1)
  await world.run('vm')
  await world.hostsMove()
  expect(holding(s.vmId).length).toBeLessThanOrEqual(1)
}
async function runsOnce(s: Subject, on: readonly string[]): Promise<void> {
  await world.until(async () => (await store.byId(db, s.vmId))?.healthy === true && holding(s.vmId).length === 1)
  const [host] = holding(s.vmId)
  expect(on).toContain(host?.id)
  expect((await store.byId(db, s.vmId))?.hostId).toBe(host?.id)
  expect(host?.vms.get(s.vmId)?.memory).toBe(s.memory)
  await world.deploymentsEnd(app)
  expect(hosts.flatMap(one => [...one.vms.keys()])).toEqual([])
  expect(await world.used()).toEqual({ vcpus: 0, memoryMib: 0, diskMib: 0 })
}

const moved = crashMatrix<Subject>({
  db,
  workflow: world.workflows.migration,
  makeSubject: () => migrate(),
  advance,
  remove: async s => void (await db.tx(tx => cancelMigration(tx, s.id))),
  unreachable: { cancelling: 'covered by the cancelled migrations' },
  check: async s => {
    const { state } = (await endOf(s))!
    await runsOnce(s, state === 'completed' ? [s.target] : [s.source])
  },
})
const cancelled = crashMatrix<Subject>({
  db,
  workflow: world.workflows.migration,
  makeSubject: () => migrate(),
  advance: async (s, phase) => {
    if (phase === 'copying') await db.tx(tx => cancelMigration(tx, s.id))
    await advance(s)
  },
  remove: s => db.tx(tx => setVmWant(tx, s.vmId, 'absent')),
  unreachable: Object.fromEntries(
    ['preparing', 'copying', 'switching', 'clearing'].map(phase => [phase, 'covered by the other matrix']),
  ),
  check: async (s, { fault }) => {
    expect((await endOf(s))?.state).toMatch(/cancelled|completed/)
    if (fault !== 'deletion') return runsOnce(s, [s.source, s.target])
    await world.until(async () => (await store.byId(db, s.vmId)) === undefined)
    await world.deploymentsEnd(app)
    expect(holding(s.vmId)).toEqual([])
    expect(await world.used()).toEqual({ vcpus: 0, memoryMib: 0, diskMib: 0 })
  },
})

describe('crash matrix of a migration', () => {
  it('contains each phase of the workflow with each fault', () =>
    expect(new Set([...moved, ...cancelled].map(one => one.name)).size).toBe(
      Object.keys(world.workflows.migration.phases).length * faults.length,
    ))
  describe('a migration that completes', () => {
    it.each(moved)('ends as usual despite a fault ($name)', ({ run }) => run())
  })
  describe('a migration that is cancelled', () => {
    it.each(cancelled)('ends as usual despite a fault ($name)', ({ run }) => run())
  })
})

const ends = (s: Subject) =>
  world.until(
    async () => !['preparing', 'copying', 'switching', 'clearing', 'cancelling'].includes((await endOf(s))!.state),
  )

describe('a migration', () => {
  it('moves the VM to another host and back', async () => {
    const there = await migrate()
    await ends(there)
    expect(await endOf(there)).toEqual({ state: 'completed', downtime: 12 })
    const back = await migrate(there.vmId)
    expect(back.target).toBe(there.source)
    await ends(back)
    expect((await endOf(back))?.state).toBe('completed')
    await runsOnce({ ...back, memory: there.memory }, [there.source])
  })

  it('can be cancelled when its target is unreachable, and the VM keeps running', async () => {
    const s = await migrate()
    const target = hostOf(s.target)!
    target.reachable = false
    for (let n = 0; n < 5; n++) await world.until(async () => false, 1).catch(() => undefined)
    await db.tx(tx => cancelMigration(tx, s.id))
    target.reachable = true
    await ends(s)
    expect((await endOf(s))?.state).toBe('cancelled')
    await runsOnce(s, [s.source])
  })
})

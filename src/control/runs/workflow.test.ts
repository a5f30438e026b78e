/**
 * Crash matrix of the run workflow: after every fault in every phase, the run ends and leaves neither a VM nor
 * reserved capacity.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { crashMatrix, faults } from '../../../test/support/crash-matrix.ts'
import { cancelRun, createRun } from './create.ts'
import * as store from './store.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db, projectId } = world
const host = await world.addHost()
const app = await world.app()
const { id: deploymentId, vmIds } = await world.deploy(app)
await world.until(async () => (await world.rows(`SELECT id FROM vm WHERE id = $1 AND healthy`, vmIds[0]!)).length === 1)
const before = await world.used()

interface Subject {
  readonly id: string
  rounds: number
}
const vmOf = async (id: string) => (await store.byId(db, id))?.vm
const of = {
  projectId,
  appId: app.id,
  deploymentId,
  vcpus: 1,
  memoryMib: 512,
  diskMib: 64,
  ipv6Prefix: 'fd00:1:2:3::/64',
}

const cases = crashMatrix<Subject>({
  db,
  workflow: world.workflows.run,
  makeSubject: async () => {
    const run = { accountId: null, purpose: 'command', command: ['true'], timeoutSeconds: 60, of } as const
    return { id: await db.tx(tx => createRun(tx, run)), rounds: 0 }
  },
  remove: ({ id }) => db.tx(tx => cancelRun(tx, id)),
  advance: async (subject, phase) => {
    await world.run('vm')
    await world.hostsMove()
    if (phase !== 'running' || ++subject.rounds < 3) return
    const vm = await vmOf(subject.id)
    if (vm) host.crash(vm.id)
  },
  check: async ({ id }, { fault }) => {
    await world.until(async () => (await vmOf(id)) === null)
    const run = await store.byId(db, id)
    expect(run?.endedAt).not.toBeNull()
    expect(fault === 'deletion' ? ['cancelled', 'failed'] : ['failed']).toContain(run?.outcome)
    expect(await world.used()).toEqual(before)
    expect([...host.vms.keys()]).toEqual(vmIds)
  },
})

describe('the crash matrix of the run workflow', () => {
  it('has a case for each phase with each fault', () =>
    expect(cases.length).toBe(Object.keys(world.workflows.run.phases).length * faults.length))
  it.each(cases)('$name', ({ run }) => run())
})

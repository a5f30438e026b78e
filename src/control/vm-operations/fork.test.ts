/**
 * Crash matrices of forks of a VM with a volume: each fork resumes with the snapshot's content, isolated from all
 * others.
 */
import { afterAll, describe, expect, it, vi } from 'vitest'
import { computeWorld, shape } from '../../../test/support/compute.ts'
import { crashMatrix, faults } from '../../../test/support/crash-matrix.ts'
import { until } from '../../../test/support/wait.ts'
import { findHost } from '../hosts/index.ts'
import { createSnapshot, dropSnapshot, listSnapshots, lockSnapshot, setVmWant } from '../vms/index.ts'
import * as vms from '../vms/store.ts'
import { attachVolume, createVolume, findVolume, lockRetained } from '../volumes/index.ts'
import { moveVolume } from '../volumes/move.ts'
import { startFork } from './index.ts'
import { deleteSnapshot } from './snapshots.ts'

// Raise the time limit, because each test runs several hundred workflow steps on shared cores.
vi.setConfig({ testTimeout: 120_000 })
const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db, projectId } = world
const host = await world.addHost({ vcpus: 1000, memoryMib: 1_000_000 })

const alone = async () => {
  const app = await world.app()
  await world.rows(`UPDATE app SET max_replicas = 1 WHERE id = $1 RETURNING id`, app.id)
  return app
}
const parentApp = await alone()
const { id: volumeId } = await db.tx(tx => createVolume(tx, { projectId, name: 'data', sizeMib: 64 }))
const mount = { mountPoint: '/data', accessMode: 0, by: 'user' } as const
await db.tx(tx => attachVolume(tx, { projectId, appId: parentApp.id, volumeId, ...mount }))
const parent = await world.deploy(parentApp)
const parentVm = parent.vmIds[0]!
const isHealthy = async (vmId: string) => (await vms.byId(db, vmId))?.healthy === true
await world.until(() => isHealthy(parentVm))
await world.rows(
  `INSERT INTO project (id, slug, name, plan, ipv6_prefix) VALUES (gen_random_uuid(), 'foreign', 'foreign', 'unlimited', 'fd00:1:2:4::/64')
   RETURNING id`,
)
const { memory } = host.vms.get(parentVm)!
const volume = host.storage.volumes.get(volumeId)!

let made = 0
const find = async (id: string) => (await listSnapshots(db, parent.id)).find(one => one.id === id)
/**
 * Takes a snapshot of the parent VM while its volume contains `content`, then changes the volume. Returns the
 * snapshot's id.
 */
async function kept(content: string): Promise<string> {
  const vm = (await vms.byId(db, parentVm))!
  const of = { deploymentId: parent.id, vmId: vm.id, hostId: host.id }
  volume.content = content
  const id = await db.tx(tx => createSnapshot(tx, { ...vm, ...of, kind: 'user', name: `s${++made}` }))
  await world.until(async () => (await find(id))?.state === 'ready')
  volume.content = 'the parent continued'
  return id
}
async function fork(snapshotId: string) {
  const app = await alone()
  return db.tx(async tx => {
    const snapshot = (await find(snapshotId))!
    const of = { ...shape, ipv6Prefix: 'fd00:1:2:3::/64' }
    const { volumes, vmIds, id } = await startFork(tx, of, snapshot, await lockRetained(tx, snapshot), {
      app,
      replicas: 1,
    })
    return { app, deploymentId: id, id: vmIds[0]!, volumeId: volumes[0]!.volume.id, rounds: 0 }
  })
}
const vmOf = async (appId: string) => {
  const [row] = await world.rows<{ id: string }>(`SELECT id FROM vm WHERE app_id = $1`, appId)
  return row && vms.byId(db, row.id)
}
const contentOf = (id: string) => host.storage.volumes.get(id)?.content

const snapshotId = await kept('then')
const remove = ({ id }: { id: string }) => db.tx(tx => setVmWant(tx, id, 'absent'))
const vmCases = crashMatrix({
  db,
  workflow: world.workflows.vm,
  makeSubject: () => fork(snapshotId),
  remove,
  advance: async (s, phase) => {
    await world.hostsMove()
    await world.run('volume')
    if (phase !== 'steady' || ++s.rounds < 3) return
    const there = host.vms.get(s.id)!
    expect(there.memory).toBe(memory)
    expect(there.disks).toMatchObject([{ volumeId: s.volumeId, state: 'attached' }])
    host.storage.write(s.volumeId, `of ${s.id}`)
    await remove(s)
  },
  check: async ({ id, volumeId: own, rounds }) => {
    await world.until(async () => (await findVolume(db, own))?.state === 'ready')
    expect(contentOf(own)).toBe(rounds === 3 ? `of ${id}` : 'then')
    expect(contentOf(volumeId)).toBe('the parent continued')
    expect(await world.rows(`SELECT vm_id FROM vm_disk WHERE volume_id = $1`, own)).toEqual([])
  },
})

describe("the crash matrix of a fork's VM", () => {
  it('has a case for each phase with each fault', () =>
    expect(vmCases.length).toBe(Object.keys(world.workflows.vm.phases).length * faults.length))
  it.each(vmCases)('$name', ({ run }) => run())
})

const snapshotCases = crashMatrix<{ id: string; rounds: number; fork?: Awaited<ReturnType<typeof fork>> }>({
  db,
  workflow: world.workflows.snapshot,
  unreachable: { creating: 'a fork needs an existing snapshot' },
  makeSubject: async () => ({ id: await kept('for one'), rounds: 0 }),
  remove: async ({ id }) => void (await db.tx(tx => dropSnapshot(tx, id))),
  advance: async (s, phase) => {
    await world.hostsMove()
    if (phase === 'keeping' && !s.fork && (await find(s.id))) s.fork = await fork(s.id)
    else if (phase === 'keeping') await db.tx(tx => dropSnapshot(tx, s.id))
    // After three rounds the host has had time to complete every request about the snapshot.
    else if (++s.rounds > 3) await world.run('volume', 'vm')
  },
  check: async ({ id, fork: forked }) => {
    expect(host.snapshots.has(id)).toBe(false)
    if (!forked) return
    await world.until(async () => (await findVolume(db, forked.volumeId))?.state === 'ready')
    expect(contentOf(forked.volumeId)).toBe('for one')
  },
})

describe('the crash matrix of deleting a snapshot that a fork still uses', () => {
  it('has a case for each phase of the deletion with each fault', () =>
    expect(snapshotCases.length).toBe((Object.keys(world.workflows.snapshot.phases).length - 1) * faults.length))
  it.each(snapshotCases)('$name', ({ run }) => run())
})

describe('a volume that has a copy in a VM snapshot', () => {
  it('moves to another host together with that snapshot', async () => {
    const other = await world.addHost()
    const target = (await findHost(db, 3600, other.id))!
    const one = await fork(snapshotId)
    await world.until(() => isHealthy(one.id))
    const of = { deploymentId: one.deploymentId, vmId: one.id, hostId: host.id, kind: 'user', name: 'mine' } as const
    const vm = (await vms.byId(db, one.id))!
    await db.tx(tx => createSnapshot(tx, { ...vm, ...of }))
    await world.until(async () => (await listSnapshots(db, one.deploymentId))[0]?.state === 'ready')
    await world.rows(`UPDATE deployment SET want = 'stopped' WHERE id = $1 RETURNING id`, one.deploymentId)
    await world.until(async () => (await vms.byId(db, one.id)) === undefined)
    const source = (await findHost(db, 3600, host.id))!
    await db.tx(tx => moveVolume(tx, one.volumeId, target, source))
    await world.until(async () => (await findVolume(db, one.volumeId))?.hostId === other.id)
    expect(other.storage.volumes.get(one.volumeId)?.content).toBe('then')
    const kept = async () => (await listSnapshots(db, one.deploymentId))[0]
    await world.until(async () => (await kept())?.movingTo === null)
    expect(await kept()).toMatchObject({ name: 'mine', hostId: other.id, state: 'ready' })
  })
})

describe('a snapshot that is being forked', () => {
  const named = async (id: string) => (await find(id))!.name
  const drop = async (name: string) => db.tx(tx => deleteSnapshot(tx, parent.id, name))
  const inProgress = { code: 'operation_in_progress' }

  it("is not deleted by a concurrent request that waits for the fork's transaction to end", async () => {
    const id = await kept('for one that is late')
    const name = await named(id)
    const app = await alone()
    const late = await db.tx(async tx => {
      const snapshot = (await lockSnapshot(tx, parent.id, name))!
      // Return the promise of the deletion without awaiting it, because the deletion waits for this transaction to end.
      const deleted = drop(name).then(
        () => 'deleted',
        (error: unknown) => error,
      )
      const waits = () =>
        world.rows(`SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
      await until(async () => (await waits()).length > 0, { what: 'the deletion waits for the lock' })
      await startFork(tx, { ...shape, ipv6Prefix: 'fd00:1:2:3::/64' }, snapshot, await lockRetained(tx, snapshot), {
        app,
        replicas: 1,
      })
      return [deleted]
    })
    expect(await late[0]).toMatchObject(inProgress)
    await world.until(async () => (await vmOf(app.id))?.healthy === true)
    await drop(name)
    await world.until(async () => !host.snapshots.has(id))
  })

  it("stays until the fork's VM has been placed on a host", async () => {
    const [id, second] = [await kept('for want of room'), await kept('for want of room, too')]
    const cordon = (is: boolean) => world.rows(`UPDATE host SET cordoned = $1 WHERE id = $2 RETURNING id`, is, host.id)
    await cordon(true)
    const forks = [await fork(id), await fork(second)]
    for (const { volumeId: own } of forks) await world.until(async () => (await findVolume(db, own))?.state === 'ready')
    expect(await vms.byId(db, forks[0]!.id)).toMatchObject({ hostId: null, want: 'running' })
    const name = await named(id)
    await expect(drop(name)).rejects.toMatchObject(inProgress)
    // The deletion of a deployment deletes its snapshots with dropSnapshot. `dropSnapshot` must not remove the snapshot
    // from the host either while a fork waits to be placed.
    await db.tx(tx => dropSnapshot(tx, second))
    for (let round = 0; round < 3; round++) await world.run('snapshot', 'vm')
    await world.hostsMove()
    expect(host.snapshots.has(second)).toBe(true)
    await cordon(false)
    await world.until(() => isHealthy(forks[0]!.id))
    expect(host.vms.get(forks[0]!.id)?.memory).toBe(memory)
    await drop(name)
    await world.until(async () => !host.snapshots.has(id) && !host.snapshots.has(second))
  })
})

describe('a volume that a host reports as part of a snapshot', () => {
  it.each([
    [
      'of another project',
      `UPDATE volume SET project_id = (SELECT id FROM project WHERE slug = 'foreign') WHERE id = $1`,
    ],
    ['of the platform', `UPDATE volume SET owner = 'database' WHERE id = $1`],
  ])('cannot be forked, and its name is not shown, if it is %s', async (_whose, change) => {
    const { id } = await db.tx(tx => createVolume(tx, { projectId, name: `secret-${++made}`, sizeMib: 64 }))
    await world.rows(`${change} RETURNING id`, id)
    const snapshot = (await find(snapshotId))!
    const disks = [{ ...snapshot.disks[0]!, volumeId: id }]
    const error = await db.tx(tx => lockRetained(tx, { ...snapshot, disks })).catch((why: unknown) => why)
    expect(error).toMatchObject({ code: 'invalid_state', message: expect.stringMatching(/was deleted/) })
    expect(String(error)).not.toContain('secret')
  })
})

describe('a fork', () => {
  it("is isolated from other forks and from the snapshot; a VM that replaces the fork's first VM boots with the fork's volume", async () => {
    const [one, two] = [await fork(snapshotId), await fork(snapshotId)]
    await world.until(async () => (await isHealthy(one.id)) && (await isHealthy(two.id)))
    expect([one, two].map(({ id }) => host.vms.get(id)?.memory)).toEqual([memory, memory])
    host.storage.write(one.volumeId, 'of one')
    await remove(one)
    const next = async () =>
      (await world.rows<{ id: string }>(`SELECT id FROM vm WHERE app_id = $1 AND id <> $2`, one.app.id, one.id))[0]?.id
    await world.until(async () => {
      const id = await next()
      return id !== undefined && (await isHealthy(id))
    })
    const successor = host.vms.get((await next()) ?? '')!
    expect(successor.memory).not.toBe(memory)
    expect(successor.disks).toMatchObject([{ volumeId: one.volumeId }])
    expect([one, two].map(each => contentOf(each.volumeId))).toEqual(['of one', 'then'])
    expect(host.storage.copies.get(`${snapshotId} ${volumeId}`)).toBe('then')
  })
})

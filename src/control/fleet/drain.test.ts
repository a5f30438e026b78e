/** Tests draining hosts: VMs move live if possible, and are replaced otherwise. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { computeWorld, type ComputeWorld } from '../../../test/support/compute.ts'
import type { SimHost } from '../../../test/support/sim-host.ts'
import { drainReport } from '../deployments/index.ts'
import * as deployments from '../deployments/store.ts'
import { cordon, findHost, listHosts } from '../hosts/index.ts'
import { createSnapshot, dropSnapshot, pokeVm } from '../vms/index.ts'
import { attachVolume, createVolume } from '../volumes/index.ts'
import { poke } from '../../engine/runner.ts'

let world: ComputeWorld
beforeEach(async () => {
  world = await computeWorld()
})
afterEach(async () => world[Symbol.asyncDispose]())

const drain = (host: SimHost) => world.db.tx(tx => cordon(tx, host.id, { cordoned: true, draining: true }))
const good = async (id: string) =>
  (await world.rows(`SELECT id FROM vm WHERE deployment_id = $1 AND healthy AND want = 'running'`, id)).length
const serving = (id: string, wanted: number) => async () => (await good(id)) === wanted
const roomOf = async (host: SimHost) => (await listHosts(world.db, 60)).find(one => one.id === host.id)
const memories = (hosts: readonly SimHost[]) =>
  hosts.flatMap(host => [...host.vms.values()].map(vm => vm.memory)).sort()

async function replicas(count: number) {
  const app = await world.app({ replicas: count })
  const { id } = await world.deploy(app, { replicas: count })
  await world.until(serving(id, count))
  return id
}

/**
 * Runs workflows until the host has no VMs, and expects that no route is down. Returns the lowest number of VMs that
 * served at any time.
 */
async function emptied(id: string, host: SimHost): Promise<number> {
  let fewest = Number.POSITIVE_INFINITY
  await world.until(async () => {
    fewest = Math.min(fewest, await good(id))
    expect(await world.rows(`SELECT state FROM route WHERE state = 'down'`)).toEqual([])
    return host.vms.size === 0 && (await roomOf(host))?.usedVcpus === 0
  })
  return fewest
}

describe.each(['live', 'none'] as const)('draining a host (migration: %s)', migrate => {
  // A VM that moves live is paused briefly, so one replica fewer serves at that time.
  it.each([1, 2, 4])('keeps an app with %i replicas serving', async count => {
    const [host, other] = [await world.addHost({ migrate }), await world.addHost({ migrate })]
    const id = await replicas(count)
    const leaving = host.vms.size > 0 ? host : other
    const staying = leaving === host ? other : host
    const before = memories([host, other])
    await drain(leaving)
    expect(await emptied(id, leaving)).toBe(migrate === 'live' ? count - 1 : count)
    await world.until(serving(id, count))
    expect(staying.vms.size).toBe(count)
    expect(await roomOf(leaving)).toMatchObject({ usedVcpus: 0, usedMemoryMib: 0, usedDiskMib: 0, vms: 0 })
    expect(await roomOf(staying)).toMatchObject({ usedVcpus: count })
    // VMs that moved live keep their memory; replaced VMs do not.
    if (migrate === 'live') expect(memories([staying])).toEqual(before)
    else expect(memories([staying])).not.toEqual(before)
  })
})

it('a VM whose move fails twice in a row is replaced', async () => {
  const [host, other] = [await world.addHost(), await world.addHost()]
  const id = await replicas(1)
  const [source, target] = host.vms.size > 0 ? [host, other] : [other, host]
  const before = memories([source])
  await drain(source)
  for (let failures = 1; failures <= 2; failures++) {
    await world.until(async () => (await world.rows(`SELECT id FROM migration WHERE state = 'copying'`)).length === 1)
    await world.rows(
      `UPDATE migration SET want = 'cancel', error = 'the wire broke' WHERE ended_at IS NULL RETURNING id`,
    )
    // Let the source host receive the cancellation before the copy ends, because a guest that already runs on the
    // target does not return.
    for (let n = 0; n < 4; n++) await world.run('migration')
    await world.until(
      async () => (await world.rows(`SELECT id FROM migration WHERE state = 'failed'`)).length === failures,
    )
  }
  expect(await emptied(id, source)).toBe(1)
  expect(target.vms.size).toBe(1)
  expect(memories([target])).not.toEqual(before)
})

it('a VM stays on a draining host until another host has room', async () => {
  const host = await world.addHost({ vcpus: 1 })
  const id = await replicas(1)
  await drain(host)
  for (let round = 0; round < 10; round++) {
    await world.run('deployment', 'vm', 'migration')
    await world.hostsMove()
  }
  expect(await good(id)).toBe(1)
  expect(host.vms.size).toBe(1)
  await world.addHost({ vcpus: 1 })
  await emptied(id, host)
  await world.until(serving(id, 1))
})

it('at most four VMs leave a host for another one at once, and all of them leave eventually', async () => {
  const host = await world.addHost()
  const ids: string[] = []
  for (let n = 0; n < 14; n++) ids.push(await replicas(1))
  await world.addHost()
  await drain(host)
  let most = 0
  await world.until(async () => {
    most = Math.max(most, (await world.rows(`SELECT id FROM migration WHERE ended_at IS NULL`)).length)
    return (await roomOf(host))?.usedVcpus === 0
  }, 120)
  expect(most).toBe(4)
  for (const id of ids) expect(await good(id)).toBe(1)
})

describe('the drain report', () => {
  /** Creates an app whose VM has a volume. */
  async function withVolume(name: string, accessMode: 0 | 1 = 0) {
    const { db, projectId } = world
    const app = await world.app()
    await world.rows(`UPDATE app SET max_replicas = 1 WHERE id = $1 RETURNING id`, app.id)
    const { id: volumeId } = await db.tx(tx => createVolume(tx, { projectId, name, sizeMib: 64 }))
    const mount = { mountPoint: '/data', accessMode, by: 'user' } as const
    await db.tx(tx => attachVolume(tx, { projectId, appId: app.id, volumeId, ...mount }))
    const { id, vmIds } = await world.deploy(app)
    await world.until(serving(id, 1))
    return { app, id, vmId: vmIds[0]!, volumeId }
  }
  const reported = async (host: SimHost) =>
    (await drainReport(world.db, world.deps, (await findHost(world.db, 3600, host.id))!)).map(
      ({ appName, state, reason }) => [appName, state, reason] as const,
    )
  const rounds = async (count: number) => {
    for (let round = 0; round < count; round++) {
      await world.hostsMove()
      await world.run('deployment', 'vm', 'migration', 'volume', 'volumeMove', 'snapshot')
    }
  }

  it('gives the reason why each VM is still there, and the VM leaves once the reason is resolved', async () => {
    const host = await world.addHost()
    const one = await withVolume('one')
    const plain = await replicas(1)
    const kept = { deploymentId: one.id, vmId: one.vmId, hostId: host.id, kind: 'user', name: 'kept' } as const
    const sizes = { ...one.app, appId: one.app.id, vcpus: 1, memoryMib: 512, diskMib: 1024 }
    const snapshotId = await world.db.tx(tx => createSnapshot(tx, { ...sizes, ...kept }))
    await rounds(4)
    await drain(host)
    expect((await reported(host)).map(([, state]) => state)).toEqual(['staying', 'waiting'])
    expect((await reported(host))[1]?.[2]).toContain('The VM is being replaced')
    const other = await world.addHost({ snapshotKind: 'another VMM' })
    await world.until(
      async () => (await good(plain)) === 1 && other.vms.size === 1 && (await reported(host)).length === 1,
    )
    await rounds(4)
    expect(await reported(host)).toEqual([[one.app.name, 'staying', expect.stringContaining('Snapshot kept of a VM')]])
    expect(host.vms.size).toBe(1)
    await world.db.tx(async tx => {
      await dropSnapshot(tx, snapshotId)
      await poke(tx, 'deployment', one.id)
    })
    await world.until(async () => (await reported(host)).some(([, state]) => state === 'moving'))
    expect((await reported(host))[0]?.[2]).toContain(`Moving to ${other.name}`)
    await world.until(async () => host.vms.size === 0 && (await roomOf(host))?.usedVcpus === 0, 120)
    await world.until(serving(one.id, 1))
    expect(await reported(host)).toEqual([])
  })

  it('names what is missing when no other host is suitable or has room', async () => {
    const host = await world.addHost()
    await withVolume('one')
    await drain(host)
    expect(await reported(host)).toEqual([[expect.any(String), 'staying', expect.stringContaining('no other host')]])
    await world.addHost({ vcpus: 0 })
    expect((await reported(host))[0]?.[2]).toContain('No host is suitable now (1 host: not enough vCPUs')
  })

  it('loads the disks of each VM once and the pools once, regardless of the number of hosts', async () => {
    const host = await world.addHost()
    for (const name of ['one', 'two']) await withVolume(name)
    for (let n = 0; n < 3; n++) await world.addHost({ vcpus: 0 })
    await drain(host)
    const ran: string[] = []
    const rows: typeof world.db.rows = (statement, params) => {
      ran.push(statement.name)
      return world.db.rows(statement, params)
    }
    const counted: typeof world.db = { ...world.db, rows }
    expect(await drainReport(counted, world.deps, (await findHost(world.db, 3600, host.id))!)).toHaveLength(2)
    expect(ran.filter(name => name === 'hosts.pools')).toHaveLength(1)
    expect(ran.filter(name => name === 'vms.disksToMove')).toHaveLength(2)
  })

  it.each([
    ['copies', 0],
    ['reads', 1],
  ] as const)('gives a reason for a VM that cannot move because a snapshot %s its volume', async (_, accessMode) => {
    const host = await world.addHost()
    const one = await withVolume('one', accessMode)
    const kept = { deploymentId: one.id, vmId: one.vmId, hostId: host.id, kind: 'user', name: 'kept' } as const
    const sizes = { ...one.app, appId: one.app.id, vcpus: 1, memoryMib: 512, diskMib: 1024 }
    await world.db.tx(tx => createSnapshot(tx, { ...sizes, ...kept }))
    await world.until(async () => (await world.rows(`SELECT id FROM vm_snapshot WHERE state = 'ready'`)).length === 1)
    const next = await world.deploy(one.app)
    await world.until(serving(next.id, 1), 120)
    await world.until(async () => (await good(one.id)) === 0 && host.vms.size === 1, 120)
    await world.addHost({ snapshotKind: 'another VMM' })
    await drain(host)
    await rounds(6)
    const reason = expect.stringMatching(/Snapshot kept of a VM of .* was made by sim, and host host-2 has another VMM/)
    expect(await reported(host)).toEqual([[one.app.name, 'staying', reason]])
    expect(host.storage.volumes.has(one.volumeId)).toBe(true)
    expect(await world.rows(`SELECT id FROM migration`)).toEqual([])
    // This host can take the VM together with everything that has to move with it.
    const able = await world.addHost()
    await world.until(async () => host.vms.size === 0 && !host.storage.volumes.has(one.volumeId), 120)
    expect([...able.snapshots.values()]).toMatchObject([{ state: 'ready' }])
    expect([...able.storage.copies.keys()]).toEqual(accessMode === 0 ? [expect.stringContaining(one.volumeId)] : [])
    await world.until(async () => host.snapshots.size === 0)
  })

  it.each([
    ['with a volume', true, true],
    ['without a volume', false, true],
    ['with a volume, to an older agent', true, false],
    ['without a volume, to an older agent', false, false],
  ])('lists a paused VM as staying when its move would lose its memory: %s', async (_, hasVolume, hereMoves) => {
    const host = await world.addHost({ movesPaused: hereMoves })
    const id = hasVolume ? (await withVolume('one')).id : await replicas(1)
    const vmId = [...host.vms.keys()][0]!
    await world.db.tx(async tx => {
      await deployments.desired(tx, id, 'paused')
      await pokeVm(tx, vmId)
      await poke(tx, 'deployment', id)
    })
    await world.until(async () => host.vms.get(vmId)?.state === 'paused')
    await world.addHost({ movesPaused: !hereMoves })
    await drain(host)
    await rounds(6)
    expect(await reported(host)).toEqual([[expect.any(String), 'staying', expect.stringContaining('Resume it first.')]])
    expect(await world.rows(`SELECT id FROM migration`)).toEqual([])
    expect(host.vms.get(vmId)?.state).toBe('paused')
  })

  it.each([true, false])('a paused VM with a volume moves and stays paused (live: %s)', async movesVolumes => {
    const host = await world.addHost({ movesVolumes })
    const { id, vmId, volumeId } = await withVolume('one')
    host.storage.write(volumeId, 'kept')
    const { memory } = host.vms.get(vmId)!
    await world.db.tx(async tx => {
      await deployments.desired(tx, id, 'paused')
      await pokeVm(tx, vmId)
      await poke(tx, 'deployment', id)
    })
    await world.until(async () => host.vms.get(vmId)?.state === 'paused')
    const other = await world.addHost({ movesVolumes })
    await drain(host)
    await world.until(async () => other.vms.get(vmId)?.state === 'paused' && (await roomOf(host))?.usedVcpus === 0, 120)
    expect(other.storage.volumes.get(volumeId)?.content).toBe('kept')
    // A VM that was stopped for the move boots on the target host, which then pauses it.
    expect(other.vms.get(vmId)?.memory === memory).toBe(movesVolumes)
    expect(host.vms.size).toBe(0)
  })
})

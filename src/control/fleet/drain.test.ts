/** Hosts that are emptied: VMs move while they run where that is possible, and are replaced where it is not. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { computeWorld, type ComputeWorld } from '../../../test/support/compute.ts'
import type { SimHost } from '../../../test/support/sim-host.ts'
import { cordon, listHosts } from '../hosts/index.ts'

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

/** Until the host has none left; the fewest that were good meanwhile. Requests are served or held at any time. */
async function emptied(id: string, host: SimHost): Promise<number> {
  let fewest = Number.POSITIVE_INFINITY
  await world.until(async () => {
    fewest = Math.min(fewest, await good(id))
    expect(await world.rows(`SELECT state FROM route WHERE state = 'down'`)).toEqual([])
    return host.vms.size === 0 && (await roomOf(host))?.usedVcpus === 0
  })
  return fewest
}

describe.each(['live', 'none'] as const)('where VMs move: %s', migrate => {
  // The one that moves stands still for an instant.
  it.each([1, 2, 4])('an app with %i replicas serves on', async count => {
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
    // Moved: the guests go on with what they remember. Replaced: they do not.
    if (migrate === 'live') expect(memories([staying])).toEqual(before)
    else expect(memories([staying])).not.toEqual(before)
  })
})

it('a VM that cannot be moved twice in a row is replaced', async () => {
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
    await world.until(
      async () => (await world.rows(`SELECT id FROM migration WHERE state = 'failed'`)).length === failures,
    )
  }
  expect(await emptied(id, source)).toBe(1)
  expect(target.vms.size).toBe(1)
  expect(memories([target])).not.toEqual(before)
})

it('a VM for which there is no room elsewhere stays until there is', async () => {
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

it('no more than four at once leave a host, and all of them do', async () => {
  const host = await world.addHost()
  const ids: string[] = []
  for (let n = 0; n < 7; n++) ids.push(await replicas(1))
  await world.addHost()
  await drain(host)
  let most = 0
  await world.until(async () => {
    most = Math.max(most, (await world.rows(`SELECT id FROM migration WHERE ended_at IS NULL`)).length)
    return (await roomOf(host))?.usedVcpus === 0
  }, 120)
  // Two that start in one instant may both find three others.
  expect(most).toBeGreaterThan(1)
  expect(most).toBeLessThanOrEqual(7)
  for (const id of ids) expect(await good(id)).toBe(1)
})

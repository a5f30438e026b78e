/** Tests hosts that stop reporting and hosts that come back. The test advances simulated hosts step by step. */
import { pino } from 'pino'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { computeWorld, type ComputeWorld } from '../../../test/support/compute.ts'
import type { SimHost } from '../../../test/support/sim-host.ts'
import { listHosts } from '../hosts/index.ts'
import { deadHosts } from './dead-hosts.ts'
import { reconcileHost, startHostReceiver } from './receiver.ts'
import { createLiveStats } from '../hosts/index.ts'
import { subjects } from '../../contract/agent.ts'
import { until } from '../../../test/support/wait.ts'

let world: ComputeWorld
let hosts: readonly [SimHost, SimHost]
beforeEach(async () => {
  world = await computeWorld({ hostTimeoutSeconds: 60 })
  hosts = [await world.addHost(), await world.addHost()]
})
afterEach(async () => world[Symbol.asyncDispose]())

const sweep = () => deadHosts(world.deps).run({ signal: new AbortController().signal, now: new Date() })
/** Moves the host's timestamps back by the given number of seconds. */
const age = (host: SimHost, seconds: number) =>
  world.rows(
    `UPDATE host SET last_seen_at = last_seen_at - make_interval(secs => $2), suspected_at = suspected_at - make_interval(secs => $2) WHERE id = $1 RETURNING id`,
    host.id,
    seconds,
  )
const serving = (id: string, good: number) => async () =>
  (await world.rows(`SELECT id FROM vm WHERE deployment_id = $1 AND healthy AND want = 'running'`, id)).length === good
const statusOf = async (host: SimHost) => (await listHosts(world.db, 60)).find(one => one.id === host.id)

async function lose(host: SimHost): Promise<void> {
  host.reachable = false
  await age(host, 70)
  expect(await sweep()).toMatchObject({ silent: 1, lost: 0 })
  await age(host, 70)
  expect(await sweep()).toMatchObject({ silent: 1, lost: 1 })
}

async function twoReplicas() {
  const app = await world.app({ replicas: 2 })
  const { id } = await world.deploy(app, { replicas: 2 })
  await world.until(serving(id, 2))
  return { app, id }
}

it("a host's report that it cannot inspect a VM does not change the VM's stored state", async () => {
  const { id } = await twoReplicas()
  const [host] = hosts
  const vmId = [...host.vms.keys()][0]!
  await world.rows(
    `UPDATE vm SET seen_generation = 0, seen_state = NULL, healthy = false WHERE id = $1 RETURNING id`,
    vmId,
  )
  const observed = host.heartbeat().vms?.find(vm => vm.vmId === vmId)
  const error = { code: 'unsupported_by_hypervisor', message: 'the VM is here, and this agent does not offer qemu' }
  const unseen = { ...observed!, generation: 0, state: 'crashed' as const, healthy: false, error }
  await reconcileHost(world.deps, host.id, [unseen])
  expect(await world.rows(`SELECT seen_state, seen_error FROM vm WHERE id = $1`, vmId)).toEqual([
    { seen_state: null, seen_error: null },
  ])
  // A report with an observed state still counts.
  await reconcileHost(world.deps, host.id, [observed!])
  await world.until(serving(id, 2))
})

it('a host that responds to a direct request is kept although its heartbeats are lost', async () => {
  await twoReplicas()
  await age(hosts[0], 90)
  expect(await sweep()).toMatchObject({ silent: 1, answered: 1, lost: 0 })
  expect(await statusOf(hosts[0])).toMatchObject({ up: true, suspectedAt: null })
})

it('VMs of a lost host start elsewhere, and their resources stay reserved until the host reports them gone', async () => {
  const { id } = await twoReplicas()
  const [lost, other] = hosts
  expect([lost.vms.size, other.vms.size]).toEqual([1, 1])
  const [old] = [...lost.vms.keys()]
  await lose(lost)
  const backends = await world.rows<{ backends: { vmId: string }[] }>(`SELECT backends FROM route`)
  expect(backends[0]?.backends.map(one => one.vmId)).not.toContain(old)
  await world.until(serving(id, 2))
  expect([lost.vms.size, other.vms.size]).toEqual([1, 2])
  expect(await statusOf(lost)).toMatchObject({ usedVcpus: 1, strays: 1, vms: 0, up: false })

  // The host comes back with its VM, and the control plane requests the removal of that VM.
  lost.reachable = true
  const receiver = await startHostReceiver({ ...world.deps, live: createLiveStats(world.deps.clock) })
  await world.bus.publish(subjects.heartbeat(lost.id), lost.heartbeat())
  await until(() => lost.vms.get(old ?? '')?.desired.want === 'absent', { what: 'the host is asked to remove the VM' })
  // A delayed message that reports the VM as gone must not release the VM's resources.
  const late = { ...lost.observed(old!), state: 'absent' }
  await world.bus.publish(subjects.observed(lost.id), late)
  // First the VM stops, then it disappears. The host reports this in a message of its own, before its next heartbeat.
  await lost.tick()
  expect(await statusOf(lost)).toMatchObject({ strays: 1, usedVcpus: 1 })
  await lost.tick()
  await until(async () => (await statusOf(lost))?.strays === 0, { what: 'the resources are released' })
  await receiver.stop()
  expect(lost.vms.size).toBe(0)
  expect(await statusOf(lost)).toMatchObject({ usedVcpus: 0, usedMemoryMib: 0, usedDiskMib: 0 })
  expect(await serving(id, 2)()).toBe(true)
})

it('a lost host that comes back with an unknown VM state still gets the request to remove its VM', async () => {
  const { id } = await twoReplicas()
  const [lost] = hosts
  const [old = ''] = [...lost.vms.keys()]
  await lose(lost)
  await world.until(serving(id, 2))
  lost.reachable = true
  const reported: string[] = []
  const log = pino({ level: 'warn' }, { write: (line: string) => void reported.push(line) })
  const receiver = await startHostReceiver({ ...world.deps, log, live: createLiveStats(world.deps.clock) })
  const heartbeat = lost.heartbeat()
  await world.bus.publish(subjects.heartbeat(lost.id), { ...heartbeat, vms: null })
  // This message contains an unknown VM state. All other fields are valid for this version of the control plane.
  const dreaming = { ...heartbeat, vms: heartbeat.vms?.map(vm => ({ ...vm, state: 'dreaming' })) }
  for (let n = 0; n < 2; n++) await world.bus.publish(subjects.heartbeat(lost.id), dreaming)
  await until(() => lost.vms.get(old)?.desired.want === 'absent', { what: 'the host is asked to remove the VM' })
  await receiver.stop()
  expect(reported.filter(line => line.includes('state of a VM'))).toHaveLength(1)
})

it('reports of a lost host about its VMs are ignored', async () => {
  const { id } = await twoReplicas()
  const [lost] = hosts
  await lose(lost)
  lost.reachable = true
  await world.hostsMove()
  const routed = await world.rows<{ backends: unknown[] }>(`SELECT backends FROM route`)
  expect(routed[0]?.backends).toHaveLength(1)
  await world.until(serving(id, 2))
})

it('a deployment on a lost host can be deleted without the host', async () => {
  const { app } = await twoReplicas()
  await lose(hosts[0])
  await world.deploymentsEnd(app)
  expect(await statusOf(hosts[0])).toMatchObject({ usedVcpus: 1, strays: 1 })
  expect(await statusOf(hosts[1])).toMatchObject({ usedVcpus: 0, strays: 0 })
})

it('a crashed replica is replaced after a back-off, and the others serve in the meantime', async () => {
  const { id } = await twoReplicas()
  const crash = async () => {
    const [victim] = await world.rows<{ id: string }>(
      `SELECT id FROM vm WHERE deployment_id = $1 AND healthy ORDER BY id LIMIT 1`,
      id,
    )
    for (const host of hosts) host.crash(victim?.id ?? '')
    return victim?.id ?? ''
  }
  const first = await crash()
  await world.until(async () => (await serving(id, 2)()) && !hosts.some(host => host.vms.has(first)))
  const second = await crash()
  await world.until(
    async () => (await world.rows(`SELECT id FROM vm WHERE id = $1 AND seen_state = 'crashed'`, second)).length === 1,
  )
  await world.run('deployment')
  expect(await world.rows(`SELECT id FROM vm WHERE id = $1 AND want = 'running'`, second)).toHaveLength(1)
  await world.rows(`UPDATE deployment SET replaced_at = replaced_at - interval '1 minute' RETURNING id`)
  await world.until(async () => (await serving(id, 2)()) && !hosts.some(host => host.vms.has(second)))
})

it('when every replica has crashed, the deployment fails and shows their last log lines', async () => {
  const { id } = await twoReplicas()
  for (const host of hosts) for (const vmId of host.vms.keys()) host.crash(vmId)
  await world.until(
    async () => (await world.rows(`SELECT id FROM deployment WHERE id = $1 AND outcome = 'failed'`, id)).length === 1,
  )
  const [row] = await world.rows<{ error: string }>(`SELECT error_message AS error FROM deployment WHERE id = $1`, id)
  expect(row?.error).toContain('the last line')
})

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { runsAll } from '../../test/support/all-examples.ts'
import { testLog } from '../../test/support/log.ts'
import { until } from '../../test/support/wait.ts'
import { createMemoryBus } from '../bus/memory.ts'
import { type HostHeartbeat, type HostVerb, subjects, type VmObserved } from '../contract/agent.ts'
import { createFakeHost } from './hypervisor/fake/host.ts'
import { startAgent } from './main.ts'
import { testAgent, testDir, testSpec, vmmsIn } from '../../test/support/agent/agent.ts'

const instant = { imageMs: 0, bootMs: 0, healthyMs: 0, stopMs: 0, logEveryMs: 0 }
const hasQemu = readdirSync('/usr/bin').includes('qemu-system-x86_64')
const spec = testSpec({ hypervisor: 'fake' })
const desired = (vmId: string, generation: number, want: 'running' | 'stopped' | 'absent' = 'running') => ({
  vmId,
  generation,
  want,
  spec,
})

test('a second agent on the same data directory is refused, and may start once the first has stopped', async () => {
  await using dir = await testDir()
  const config = { hypervisor: 'fake', dataDir: dir.path } as const
  {
    await using _first = await testAgent(config)
    await expect(testAgent(config)).rejects.toThrow(/another agent/)
  }
  await using _second = await testAgent(config)
})

test('a VM without a health check is healthy once its program has run for 2 s, also after a restart', async () => {
  const fake = createFakeHost(instant)
  await using host = await testAgent({ hypervisor: 'fake' }, fake)
  const startedMs = Date.now()
  await host.put({ ...desired('a', 1), spec: { ...spec, unprobed: true, healthCheckPath: null, maxRestarts: 1 } })
  expect((await host.until('a', 'running', vm => vm.state === 'running')).healthy).toBe(false)
  await host.until('a', 'healthy', vm => vm.healthy)
  expect(Date.now() - startedMs).toBeGreaterThanOrEqual(2000)
  fake.vms.get('a')?.exit(1)
  await host.until('a', 'not healthy', vm => !vm.healthy)
  await host.until('a', 'healthy again', vm => vm.healthy && vm.restartCount === 1)
})

test.each([
  ['failure', 0, 0],
  ['never', 0, 0],
  ['never', 3, 0],
  ['failure', 3, 1],
  [undefined, 0, 1],
] as const)('with restartOn=%s, a program that exits with %i is restarted %i times', async (on, code, restarts) => {
  const fake = createFakeHost(instant)
  await using host = await testAgent({ hypervisor: 'fake' }, fake)
  await host.put({ ...desired('a', 1), spec: { ...spec, maxRestarts: 1, ...(on ? { restartOn: on } : {}) } })
  await host.until('a', 'healthy', vm => vm.healthy)
  fake.vms.get('a')?.exit(code)
  if (restarts > 0) {
    await host.until('a', 'healthy again', vm => vm.healthy && vm.restartCount === restarts)
    return
  }
  const ended = await host.until('a', 'ended', vm => vm.state === 'crashed')
  expect(ended).toMatchObject({ exitCode: code, restartCount: 0, error: { code: 'exited' } })
  const lines = (await host.logs('a')).map(({ line }) => line).filter(line => line.includes('exited with code'))
  const line = `the program exited with code ${code}`
  expect(lines).toEqual(code === 0 ? [line] : [line, `crashed: The program exited with code ${code}.`])
})

test('faults while a VM is prepared are retried, and two failed boots crash the VM', async () => {
  const fake = createFakeHost(instant)
  await using host = await testAgent({ hypervisor: 'fake' }, fake)
  fake.fail('prepare', 'a', 'registry is down', 2)
  fake.fail('boot', 'a', 'hung')
  await host.put(desired('a', 1))
  const observed = await host.until('a', 'the fault is told', vm => vm.error !== null)
  expect(observed).toMatchObject({ state: 'preparing', error: { code: 'step_failed', message: 'registry is down' } })
  await host.until('a', 'healthy', vm => vm.healthy && vm.error === null)
  fake.fail('boot', 'b', 'hung', 9)
  await host.put(desired('b', 1))
  const crashed = await host.until('b', 'crashed', vm => vm.state === 'crashed')
  expect(crashed.error).toEqual({ code: 'boot_failed', message: 'hung' })
  const lines = (await host.logs('b')).map(({ line }) => line).filter(line => line.includes('hung'))
  expect(lines, 'each reason is said once').toEqual(['hung; it will be retried', 'crashed: hung'])
})

test('a VM whose VMM dies is booted again up to maxRestarts times', async () => {
  const fake = createFakeHost(instant)
  await using host = await testAgent({ hypervisor: 'fake' }, fake)
  await host.put({ ...desired('a', 1), spec: { ...spec, maxRestarts: 1 } })
  await host.until('a', 'healthy', vm => vm.healthy)
  fake.vms.get('a')?.die('killed')
  await host.until('a', 'healthy again', vm => vm.healthy && vm.restartCount === 1)
  fake.vms.get('a')?.die('killed')
  expect((await host.until('a', 'crashed', vm => vm.state === 'crashed')).error?.code).toBe('vm_died')
})

test('a VM whose guest violates the protocol is killed, and a newer generation starts the VM again', async () => {
  const fake = createFakeHost(instant)
  await using host = await testAgent({ hypervisor: 'fake' }, fake)
  await host.put(desired('a', 1))
  await host.until('a', 'healthy', vm => vm.healthy)
  fake.vms.get('a')?.babble('a line without an end')
  const { error } = await host.until('a', 'crashed', vm => vm.state === 'crashed')
  expect(error).toEqual({ code: 'guest_protocol', message: expect.stringContaining('a line without an end') })
  expect(fake.vms.has('a')).toBe(false)
  expect((await host.logs('a')).map(({ line }) => line)).toContainEqual(
    expect.stringContaining('a line without an end'),
  )
  await host.restart()
  expect(await host.get('a')).toMatchObject({ state: 'crashed', error: { code: 'guest_protocol' } })
  await host.put(desired('a', 2))
  await host.until('a', 'healthy again', vm => vm.healthy && vm.error === null)
})

test('a newer generation of the desired state aborts a boot, and a higher restart counter reboots the VM', async () => {
  const fake = createFakeHost({ ...instant, bootMs: 60_000 })
  await using host = await testAgent({ hypervisor: 'fake' }, fake)
  await host.put(desired('a', 1))
  await host.until('a', 'booting', vm => vm.state === 'booting')
  await host.put(desired('a', 2, 'stopped'))
  await host.until('a', 'stopped', vm => vm.state === 'stopped')
  fake.timing = instant
  await host.put(desired('a', 3))
  await host.until('a', 'healthy', vm => vm.healthy)
  await host.put({ ...desired('a', 4), spec: { ...spec, restarts: 1, healthCheckPath: null, maxRestarts: 7 } })
  await host.until('a', 'restarted', vm => vm.healthy && vm.restartCount === 1)
  await host.put({ ...desired('a', 5), spec: { ...spec, restarts: 1, healthCheckPath: '/other', maxRestarts: 2 } })
  expect((await host.until('a', 'followed', vm => vm.generation === 5)).restartCount).toBe(1)
})

// Only partly in `npm test`: 50 VMs cover 200, because each VM takes the same path.
const vmCount = runsAll ? 200 : 50
test(`the first heartbeat lists all of ${vmCount} concurrent VMs, later heartbeats list all of them only periodically`, {
  timeout: 120_000,
}, async () => {
  await using dir = await testDir()
  const config = { hypervisor: 'fake', dataDir: dir.path } as const
  await using host = await testAgent(config, createFakeHost(instant))
  const ids = Array.from({ length: vmCount }, (_, n) => `vm-${n}`)
  await Promise.all(ids.map(id => host.put(desired(id, 1))))
  const list = async () => ((await host.request('vm.list', {})) as { vms: VmObserved[] }).vms
  await until(async () => (await list()).filter(vm => vm.healthy).length === ids.length, { what: 'all are healthy' })
  const vms = await list()
  expect(new Set(vms.map(({ endpoint }) => endpoint?.host)).size).toBe(vmCount)
  const heartbeats: HostHeartbeat[] = []
  await host.bus.subscribe(
    subjects.heartbeat(host.agent.hostId),
    ({ data }) => void heartbeats.push(data as HostHeartbeat),
  )
  await host.restart()
  await until(() => heartbeats.length > 1, { what: 'two heartbeats' })
  expect(heartbeats[0]?.vms).toHaveLength(vmCount)
  expect(heartbeats[0]?.vms?.every(({ state, restartCount }) => state === 'running' && restartCount === 0)).toBe(true)
  expect(heartbeats[1]?.vms).toBeNull()
  expect(heartbeats[1]?.stats).toHaveLength(vmCount)
})

test('a request that does not match its schema is refused with an error code', async () => {
  await using host = await testAgent({ hypervisor: 'fake' })
  await expect(host.request('vm.put', { vmId: 'a' })).rejects.toMatchObject({ remoteCode: 'invalid_request' })
  for (const vmId of ['../x', 'a/b', '', '.', 'x'.repeat(80)]) {
    await expect(host.put(desired(vmId, 1))).rejects.toMatchObject({ remoteCode: 'invalid_vm' })
    await expect(host.request('vm.logs', { vmId, tail: 1, afterUs: 0 })).rejects.toMatchObject({
      remoteCode: 'invalid_vm',
    })
  }
  const other = { ...desired('a', 1), spec: { ...spec, hypervisor: 'qemu' as const } }
  await expect(host.put(other)).rejects.toMatchObject({ remoteCode: 'unsupported_by_hypervisor' })
})

test('a VM whose hypervisor is not configured is neither forgotten nor reported as absent', async () => {
  await using host = await testAgent({ hypervisor: 'fake' }, createFakeHost(instant))
  await host.put(desired('a', 3))
  await host.until('a', 'healthy', vm => vm.healthy)
  await host.agent.stop()
  const bus = createMemoryBus()
  const other = await startAgent({ ...host.config, hypervisor: 'qemu' }, { bus, log: testLog() })
  const ask = (verb: HostVerb, data: unknown) =>
    bus.request(subjects.hostIn(other.hostId, verb), data, { timeoutMs: 5000 })
  const refused = { remoteCode: 'unsupported_by_hypervisor' }
  await expect(ask('vm.get', { vmId: 'a' })).rejects.toMatchObject(refused)
  await expect(ask('vm.put', { ...desired('a', 4), want: 'absent' })).rejects.toMatchObject(refused)
  await expect(ask('vm.forget', { vmId: 'a', generation: 3 })).rejects.toMatchObject(refused)
  expect(await ask('vm.list', {})).toMatchObject({ vms: [{ vmId: 'a', generation: 0, state: 'crashed' }] })
  await other.stop()
  await bus.close()
  await host.restart()
  expect(await host.get('a')).toMatchObject({ generation: 3, state: 'running', restartCount: 0 })
})

test.skipIf(!hasQemu)(
  'a guest that does not start in time is retried once, then crashes, and leaves nothing behind (needs qemu)',
  // On a new host the guest kernel is fetched first, which may take minutes.
  { timeout: 240_000 },
  async () => {
    await using host = await testAgent({ hypervisor: 'qemu', bootLimitMs: 60 })
    await host.put({ ...desired('a', 1), spec: testSpec() })
    const crashed = await host.until('a', 'crashed', vm => vm.state === 'crashed')
    expect(crashed.error?.code).toBe('boot_failed')
    expect((await host.logs('a')).filter(({ line }) => /it will be retried$|^crashed: /.test(line))).toHaveLength(2)
    expect(await vmmsIn(host.config.dataDir)).toEqual([])
  },
)

test.skipIf(!hasQemu)(
  'stopVms stops the VMs, and the next agent starts them again (needs qemu)',
  { timeout: 60_000 },
  async () => {
    await using dir = await testDir()
    await using host = await testAgent({ hypervisor: 'qemu', dataDir: dir.path })
    await host.put({ ...desired('a', 1), spec: testSpec() })
    await host.until('a', 'healthy', vm => vm.healthy)
    await host.agent.stop({ stopVms: true })
    expect(await vmmsIn(join(dir.path))).toEqual([])
    await host.restart()
    await host.until('a', 'healthy', vm => vm.healthy)
  },
)

import { existsSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { type DiskSpec, type HostHeartbeat, subjects, type VmSpec, type VmWant } from '../../contract/agent.ts'
import { type TestAgent, testAgent, testDisk, testSpec } from '../../../test/support/agent/agent.ts'

/** Tests operations on a running VM with the real QEMU. */
const hasQemu = existsSync('/usr/bin/qemu-system-x86_64')
const limit = { timeout: 120_000 }
const network = process.getuid?.() === 0 ? 'tap' : 'user'
const qemu = { hypervisor: 'qemu', network } as const

const desired = (generation: number, change: Partial<VmSpec> = {}, vmId = 'vm-1', want: VmWant = 'running') => ({
  vmId,
  generation,
  want,
  spec: testSpec(change),
})
const healthy = (host: TestAgent, vmId = 'vm-1') => host.until(vmId, 'healthy', vm => vm.healthy)

const disk = (generation: number, change: Partial<DiskSpec> = {}) =>
  testDisk('0b6f6a5e-7d1c-4f0e-9d5b-3c1f4e8a9b21', generation, change)
const attached = (host: TestAgent, generation: number) =>
  host.until('vm-1', 'attached', vm => vm.disks?.[0]?.state === 'attached' && vm.disks[0].generation === generation)

describe.skipIf(!hasQemu)('one running VM', () => {
  let host: TestAgent
  let generation = 0
  /** Puts the next generation of the VM's desired state. */
  const put = (change: Partial<VmSpec> = {}, want: VmWant = 'running') =>
    host.put(desired(++generation, { memoryMib: 512, env: { GREETING: 'good day' }, ...change }, 'vm-1', want))
  beforeAll(async () => {
    host = await testAgent(qemu)
    await put()
    await healthy(host)
  })
  afterAll(() => host?.[Symbol.asyncDispose]())

  test(
    "exec runs several programs at once as the image's user, without a shell, and limits time and output (needs qemu)",
    limit,
    async () => {
      expect(await host.exec('vm-1', ['id', '-un'])).toEqual({
        exitCode: 0,
        stdout: 'web\n',
        stderr: '',
        truncated: false,
      })
      const odd = ['sh', '-c', 'printf "%s|" "$@" "$GREETING"; pwd >&2; exit 7', 'sh', 'a b', '', '100%\n$(id)', 'ü']
      expect(await host.exec('vm-1', odd)).toEqual({
        exitCode: 7,
        stdout: 'a b||100%\n$(id)|ü|good day|',
        stderr: '/app\n',
        truncated: false,
      })
      expect((await host.exec('vm-1', ['no-such-program'])).exitCode).toBe(127)
      const loud = await host.exec(
        'vm-1',
        ['sh', '-c', 'while :; do echo 0123456789012345678901234567890123456789; done | head -c 1500000'],
        30_000,
      )
      expect(loud).toMatchObject({ exitCode: 0, truncated: true, stderr: '' })
      expect(loud.stdout.length).toBe(1 << 20)
      const late = await host.exec('vm-1', ['sh', '-c', 'echo begun; sleep 60; echo done'], 300)
      expect(late).toMatchObject({ exitCode: 124, stdout: 'begun\n' })
      const many = await Promise.all(
        [1, 2, 3, 4, 5, 6].map(n => host.exec('vm-1', ['sh', '-c', `sleep 0.2; echo ${n}`])),
      )
      expect(many.map(({ stdout }) => stdout)).toEqual(['1\n', '2\n', '3\n', '4\n', '5\n', '6\n'])
      await expect(host.exec('vm-2', ['id'])).rejects.toMatchObject({ remoteCode: 'vm_not_running' })
    },
  )

  test("after a pause the guest's clock has the right time (needs qemu)", limit, async () => {
    await put({}, 'paused')
    const { state } = await host.until('vm-1', 'paused', vm => vm.state === 'paused')
    expect(state).toBe('paused')
    const since = Date.now()
    await until(() => Date.now() - since > 4_000, { what: 'four seconds' })
    await put()
    await healthy(host)
    const behindMs = async () => Date.now() - Number((await host.exec('vm-1', ['date', '+%s'])).stdout) * 1000
    await until(async () => (await behindMs()) < 3_000, { what: 'the time of the host' })
  })

  test('the balloon follows its target without a reboot, down to a minimum (needs qemu)', limit, async () => {
    const actual: number[] = []
    await host.bus.subscribe(subjects.heartbeat(host.agent.hostId), ({ data }) => {
      for (const { balloonActualMib } of (data as HostHeartbeat).stats) actual.push(balloonActualMib ?? -1)
    })
    const reached = (mib: number) => until(() => actual.at(-1) === mib, { what: `a balloon of ${mib} MiB` })
    const { startedAtMs } = await healthy(host)
    await reached(512)
    await put({ balloonTargetMib: 200 })
    await reached(200)
    await put({ balloonTargetMib: 1 })
    await reached(128)
    await host.restart()
    await put()
    await reached(512)
    expect((await host.get('vm-1')).startedAtMs).toBe(startedAtMs)
  })

  test('volumes are attached to and detached from a running VM, and keep their data (needs qemu)', limit, async () => {
    const sh = async (script: string) => host.exec('vm-1', ['sh', '-c', script])
    await host.volume(disk(1))
    const { startedAtMs } = await healthy(host)
    await put({ disks: [disk(1)] })
    await attached(host, 1)
    expect(await sh('echo kept > /data/file')).toMatchObject({ exitCode: 0, stderr: '' })
    await host.restart()
    await put()
    await host.until('vm-1', 'detached', vm => vm.disks === undefined)
    expect((await sh('cat /data/file')).exitCode).toBe(1)

    await put({ disks: [disk(2, { readOnly: true, mountPoint: '/srv/deep' })] })
    await attached(host, 2)
    expect((await sh('cat /srv/deep/file; echo new > /srv/deep/file')).stdout).toBe('kept\n')
    expect((await sh('cat /srv/deep/file')).stdout).toBe('kept\n')

    // A volume that a program uses stays attached until the program exits, and `DiskObserved.error` has the reason.
    const sleeper = host.exec('vm-1', ['sh', '-c', 'cd /srv/deep; touch /tmp/there; sleep 2'])
    await until(async () => (await sh('test -e /tmp/there')).exitCode === 0, { what: 'somebody uses it' })
    await put({ disks: [disk(1)] })
    const busy = await host.until('vm-1', 'busy', vm => vm.disks?.[0]?.error !== null)
    expect(busy.disks?.[0]).toMatchObject({ state: 'detaching', error: expect.stringContaining('busy') })
    await sleeper
    // Attachment generation 1 is rejected, because this host has already attached generation 2.
    const stale = await host.until('vm-1', 'refused', vm => vm.error?.code === 'stale_volume_generation')
    expect(stale.disks?.[0]?.state).toBe('failed')
    expect((await host.get('vm-1')).startedAtMs).toBe(startedAtMs)
  })
})

test.skipIf(!hasQemu)(
  'a volume is attached before the workload starts, also when the VM is recreated (needs qemu)',
  limit,
  async () => {
    await using host = await testAgent(qemu)
    const command = ['sh', '-c', 'echo start >> /data/starts && cat /data/starts && exec sleep 600']
    const spec = { command, healthCheckPath: null, disks: [disk(1)] }
    await host.volume(disk(1))
    const starts = async () => (await host.logs('vm-1')).filter(({ line }) => line === 'start').length
    await host.put(desired(1, spec))
    await until(async () => (await starts()) === 1, { what: 'the first start', timeoutMs: 30_000 })
    await host.put(desired(2, spec, 'vm-1', 'stopped'))
    await host.until('vm-1', 'stopped', vm => vm.state === 'stopped')
    await host.put(desired(3, spec))
    await until(async () => (await starts()) === 3, { what: 'the second start', timeoutMs: 30_000 })
  },
)

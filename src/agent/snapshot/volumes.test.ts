/** Snapshots of real VMs with volumes: guest memory and file system are always consistent, and no write is lost. */
import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import type { DiskSpec, SnapshotObserved, VmSpec, VmWant } from '../../contract/agent.ts'
import { type TestAgent, testAgent, testDisk, testSpec, vmmsIn } from '../../../test/support/agent/agent.ts'

const hasQemu = existsSync('/usr/bin/qemu-system-x86_64')
const network = process.getuid?.() === 0 ? 'tap' : 'user'
const qemu = { hypervisor: 'qemu', network } as const
const limit = { timeout: 120_000 }

const disk = (generation: number, change: Partial<DiskSpec> = {}) => testDisk('vol-1', generation, change)
const desired = (generation: number, change: Partial<VmSpec>, vmId = 'vm-1', want: VmWant = 'running') => ({
  vmId,
  generation,
  want,
  spec: testSpec(change),
})
const healthy = (host: TestAgent, vmId = 'vm-1') => host.until(vmId, 'healthy', vm => vm.healthy)
const sh = async (host: TestAgent, script: string, vmId = 'vm-1') => {
  const { stdout, stderr } = await host.exec(vmId, ['sh', '-c', script])
  return (stdout + stderr).trim()
}
const copies = (host: TestAgent) =>
  readdir(join(host.config.dataDir, 'volumes/local/vol-1.snapshots')).catch(() => [] as string[])
const killVmm = async (host: TestAgent) => {
  const [pid = 0] = await vmmsIn(host.config.dataDir)
  process.kill(pid, 'SIGKILL')
  await until(async () => !(await vmmsIn(host.config.dataDir)).includes(pid), { what: 'the VMM has gone' })
}

/** A program that continuously writes to its volume. */
const command = ['/bin/sh', '-c', '(while true; do echo tick; sleep 1; done >> /data/ticks) & exec /bin/sh /app/start']

async function hostWithVm(): Promise<TestAgent> {
  const host = await testAgent(qemu)
  await host.volume({ volumeId: 'vol-1' })
  await host.put(desired(1, { command, disks: [disk(1)] }))
  await healthy(host)
  return host
}

test.skipIf(!hasQemu)(
  'a restored VM has memory and volume of the same point in time, and keeps later writes after a crash',
  limit,
  async () => {
    await using host = await hostWithVm()
    // When the snapshot is taken, the guest has an open file with data that it has not flushed.
    await sh(host, 'echo before > /data/file; echo before > /tmp/state')
    const ticking = 'while true; do echo tick; sleep 1; done >> /data/ticks'
    await sh(host, `setsid sh -c '${ticking}' > /dev/null 2>&1 < /dev/null &`)
    await until(async () => Number(await sh(host, 'wc -l < /data/ticks')) > 0, { what: 'its program writes' })
    const boot = await sh(host, 'cat /proc/sys/kernel/random/boot_id')
    const snapshot = await host.snapshot('snap-1', 'vm-1')
    expect(snapshot).toMatchObject({ state: 'ready', disks: [{ volumeId: 'vol-1', copied: true }] })
    expect(await copies(host)).toEqual(['snap-1.raw'])
    await sh(host, 'echo after > /data/file; echo after > /tmp/state; sync')

    const from = { snapshotId: 'snap-1', renew: false }
    await host.put(desired(2, { command, disks: [disk(1)], from, restarts: 1 }))
    await host.until('vm-1', 'started anew', vm => vm.generation === 2 && vm.steps.some(step => step.name === 'load'))
    await healthy(host)
    expect(await sh(host, 'cat /data/file /tmp/state /proc/sys/kernel/random/boot_id')).toBe(`before\nbefore\n${boot}`)
    const lines = async () => Number(await sh(host, 'wc -l < /data/ticks'))
    const then = await lines()
    await until(async () => (await lines()) > then, { what: 'its program goes on writing' })

    await sh(host, 'echo later > /data/file; sync')
    await host.restart()
    expect(await sh(host, 'cat /data/file')).toBe('later')
    await host.put(desired(3, { command, disks: [disk(1)], from, restarts: 1, maxRestarts: 5 }))
    await killVmm(host)
    await until(async () => (await sh(host, 'cat /data/file').catch(() => '')) === 'later', {
      what: 'it is back',
      timeoutMs: 60_000,
    })
    expect(await sh(host, 'cat /proc/sys/kernel/random/boot_id')).not.toBe(boot)

    await host.request('snapshot.put', { snapshotId: 'snap-1', vmId: 'vm-1', generation: 2, want: 'absent' })
    await host.put(desired(4, { command, disks: [disk(1)], maxRestarts: 5, restarts: 1 }))
    await until(async () => (await copies(host)).length === 0, { what: 'the copy has gone' })
  },
)

test.skipIf(!hasQemu)(
  'a sleeping VM is not started by a restarted agent, and a clone of its snapshot has its last writes',
  limit,
  async () => {
    await using host = await hostWithVm()
    const boot = await sh(host, 'echo kept > /data/file; cat /proc/sys/kernel/random/boot_id')
    const sleep = (generation: number, want: 'present' | 'absent', snapshotId: string) =>
      host.request('snapshot.put', { snapshotId, vmId: 'vm-1', generation, want, afterwards: 'stay' })
    const slept = (snapshotId: string) =>
      until(
        async () => {
          const observed = (await host.request('snapshot.get', { snapshotId })) as SnapshotObserved
          return observed.state === 'ready'
        },
        { what: 'asleep' },
      )
    // Removing the snapshot, but not the paused VM, resumes the VM.
    await sleep(1, 'present', 'sleep-0')
    await slept('sleep-0')
    expect(await copies(host)).toEqual([])
    await host.restart()
    expect(await host.get('vm-1')).toMatchObject({ state: 'paused', healthy: false })
    await sleep(2, 'absent', 'sleep-0')
    await healthy(host)

    await sleep(1, 'present', 'sleep-1')
    await slept('sleep-1')
    await host.put(desired(2, { command, disks: [disk(1)] }, 'vm-1', 'absent'))
    await host.until('vm-1', 'gone', vm => vm.state === 'absent')
    const from = { snapshotId: 'sleep-1', renew: true }
    await host.put(desired(1, { command, hostname: 'woken', disks: [disk(2)], from }, 'vm-2'))
    await healthy(host, 'vm-2')
    expect(await sh(host, 'cat /data/file /proc/sys/kernel/random/boot_id', 'vm-2')).toBe(`kept\n${boot}`)
    await sh(host, 'echo newer > /data/file; sync', 'vm-2')

    // The volume has a higher generation than in the snapshot, so it was written to since. The VM boots and sees that
    // write.
    await host.put(desired(2, { command, hostname: 'woken', disks: [disk(2)], from }, 'vm-2', 'absent'))
    await host.until('vm-2', 'gone', vm => vm.state === 'absent')
    await host.put(desired(1, { command, hostname: 'third', disks: [disk(3)], from }, 'vm-3'))
    await healthy(host, 'vm-3')
    expect(await sh(host, 'cat /data/file', 'vm-3')).toBe('newer')
    expect(await sh(host, 'cat /proc/sys/kernel/random/boot_id', 'vm-3')).not.toBe(boot)
    expect((await host.logs('vm-3')).some(({ line }) => line.includes('boots instead'))).toBe(true)
  },
)

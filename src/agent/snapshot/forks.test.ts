/** Forks of a real VM with a volume: each fork gets its own clone, and none sees the writes of another. */
import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import type { VmSpec } from '../../contract/agent.ts'
import { type TestAgent, testAgent, testDisk, testSpec } from '../../../test/support/agent/agent.ts'
import { until } from '../../../test/support/wait.ts'

const hasQemu = existsSync('/usr/bin/qemu-system-x86_64')
const network = process.getuid?.() === 0 ? 'tap' : 'user'

const desired = (vmId: string, generation: number, change: Partial<VmSpec>) => ({
  vmId,
  generation,
  want: 'running' as const,
  spec: testSpec({ hostname: vmId, ...change }),
})
const healthy = (host: TestAgent, vmId: string) => host.until(vmId, 'healthy', vm => vm.healthy)
const sh = async (host: TestAgent, vmId: string, script: string) => {
  const { stdout, stderr } = await host.exec(vmId, ['sh', '-c', script])
  return (stdout + stderr).trim()
}
/** A program that keeps a file open and continues to write to it after each restore. */
const command = [
  '/bin/sh',
  '-c',
  '(exec 3>> /data/ticks; while true; do hostname >&3; sleep 1; done) & exec /bin/sh /app/start',
]

test.skipIf(!hasQemu)(
  'a fork continues from the state of its parent, with its own volume',
  { timeout: 150_000 },
  async () => {
    await using host = await testAgent({ hypervisor: 'qemu', network })
    await host.volume({ volumeId: 'vol-1' })
    await host.put(desired('parent', 1, { command, disks: [testDisk('vol-1', 4)] }))
    await healthy(host, 'parent')
    const boot = await sh(host, 'parent', 'echo then > /data/file; sync; cat /proc/sys/kernel/random/boot_id')
    const kept = await host.snapshot('snap-1', 'parent')
    expect(kept).toMatchObject({ state: 'ready', disks: [{ volumeId: 'vol-1', copied: true }] })
    await sh(host, 'parent', 'echo parent > /data/file; sync')

    const fork = async (n: number) => {
      const [vmId, volumeId] = [`fork-${n}`, `clone-${n}`]
      await host.volume({ volumeId, from: { volumeId: 'vol-1', snapshotId: 'snap-1' } })
      const from = { snapshotId: 'snap-1', renew: true, clones: [{ volumeId, of: 'vol-1' }] }
      await host.put(desired(vmId, 1, { command, disks: [testDisk(volumeId, 1)], from }))
      await healthy(host, vmId)
      expect((await host.get(vmId)).disks).toMatchObject([{ volumeId, state: 'attached' }])
      return { vmId, volumeId, from }
    }
    const [one, two] = [await fork(1), await fork(2)]
    for (const { vmId, volumeId } of [one, two]) {
      expect(await sh(host, vmId, 'cat /data/file /proc/sys/kernel/random/boot_id')).toBe(`then\n${boot}`)
      // The kernel of the fork reports the clone's id as serial number of the disk.
      expect(await sh(host, vmId, 'cat /sys/block/sda/device/vpd_pg80 | tr -cd "a-z0-9-"')).toContain(volumeId)
      await until(async () => (await sh(host, vmId, 'tail -n 1 /data/ticks')) === vmId, {
        what: `the program of ${vmId} goes on writing`,
      })
      await sh(host, vmId, `echo ${vmId} > /data/file; sync; echo 3 > /proc/sys/vm/drop_caches`)
    }
    const files = async () => Promise.all(['parent', one.vmId, two.vmId].map(vmId => sh(host, vmId, 'cat /data/file')))
    expect(await files()).toEqual(['parent', 'fork-1', 'fork-2'])
    expect(await sh(host, 'parent', 'grep fork /data/ticks || echo none')).toBe('none')
    expect(await sh(host, one.vmId, 'grep fork-2 /data/ticks || echo none')).toBe('none')

    // Check that the snapshot's copy of the volume does not contain what the forks wrote: clone the copy, attach the
    // clone to the first fork, read it, and detach it again.
    await host.volume({ volumeId: 'look', from: { volumeId: 'vol-1', snapshotId: 'snap-1' } })
    const looking = testDisk('look', 1)
    const mounted = { ...looking, mountPoint: '/srv/look' }
    await host.put(desired(one.vmId, 2, { command, disks: [testDisk(one.volumeId, 1), mounted], from: one.from }))
    await host.until(one.vmId, 'it has both', vm => vm.disks?.filter(each => each.state === 'attached').length === 2)
    expect(await sh(host, one.vmId, 'cat /srv/look/file; grep fork /srv/look/ticks || echo none')).toBe('then\nnone')
    await host.put(desired(one.vmId, 3, { command, disks: [testDisk(one.volumeId, 1)], from: one.from }))
    await host.until(one.vmId, 'it has let go', vm => vm.generation === 3 && vm.disks?.length === 1)

    // A fork that restarts boots with its own volume instead of being restored again.
    await host.put(desired(two.vmId, 2, { command, disks: [testDisk(two.volumeId, 1)], from: two.from, vcpus: 2 }))
    await host.until(two.vmId, 'booted', vm => vm.healthy && !vm.steps.some(step => step.name === 'resume'))
    expect(await sh(host, two.vmId, 'cat /data/file')).toBe('fork-2')
    expect(await sh(host, two.vmId, 'cat /proc/sys/kernel/random/boot_id')).not.toBe(boot)
  },
)

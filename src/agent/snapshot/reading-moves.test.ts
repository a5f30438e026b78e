/**
 * Transfers a snapshot of a VM with a read-only volume to another host, together with the volume, and starts a fork
 * there.
 */
import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import type { DiskSpec } from '../../contract/agent.ts'
import { type TestAgent, testAgent, testSpec } from '../../../test/support/agent/agent.ts'
import { moveVolume, put, send } from '../../../test/support/agent/snapshot.ts'

const hasQemu = existsSync('/usr/bin/qemu-system-x86_64')
const network = process.getuid?.() === 0 ? 'tap' : 'user'

const disk = (readOnly: boolean, generation = 1): DiskSpec => ({
  volumeId: 'vol-1',
  pool: 'local',
  sizeMib: 32,
  generation,
  mountPoint: '/data',
  readOnly,
})
const sh = async (host: TestAgent, vmId: string, script: string) => {
  const { stdout, stderr } = await host.exec(vmId, ['sh', '-c', script])
  return (stdout + stderr).trim()
}
const gone = async (host: TestAgent, vmId: string) => {
  await host.put({ vmId, generation: 2, want: 'absent', spec: testSpec({ hostname: vmId }) })
  await host.until(vmId, 'gone', vm => vm.state === 'absent')
}
const runs = async (host: TestAgent, vmId: string, change: Parameters<typeof testSpec>[0]) => {
  await host.put({ vmId, generation: 1, want: 'running', spec: testSpec({ hostname: vmId, ...change }) })
  await host.until(vmId, 'healthy', vm => vm.healthy)
}

test.skipIf(!hasQemu)(
  'a fork on the target host reads the data of a read-only volume, and boots if the volume changed since the snapshot',
  { timeout: 240_000 },
  async () => {
    await using source = await testAgent({ hypervisor: 'qemu', network })
    await using target = await testAgent({ hypervisor: 'qemu', network })
    await source.volume({ volumeId: 'vol-1' })
    await runs(source, 'writer', { disks: [disk(false)] })
    await sh(source, 'writer', 'head -c 3000000 /dev/urandom > /data/file; sync')
    await gone(source, 'writer')

    await runs(source, 'reader', { disks: [disk(true)] })
    // The guest's page cache contains a part of the volume, and the guest's program has a file of the volume open.
    const known = await sh(
      source,
      'reader',
      '(exec 3< /data/file; sleep 100000) & head -c 1000000 /data/file | sha256sum; cat /proc/sys/kernel/random/boot_id',
    )
    const taken = await source.snapshot('snap-1', 'reader')
    expect(taken).toMatchObject({ state: 'ready', disks: [{ volumeId: 'vol-1', readOnly: true, copied: false }] })
    const whole = await sh(source, 'reader', 'sha256sum < /data/file')
    await gone(source, 'reader')

    const ends = await send({ source, kept: taken }, target, 't1', 2)
    expect(ends.map(({ phase, error }) => [phase, error])).toEqual(ends.map(() => ['complete', null]))
    await moveVolume(source, target, 'vol-1', [])
    await put(target, 3, { arrived: { transferId: 't1' } })
    await put(source, 3, { want: 'absent' })
    await source.volume({ volumeId: 'vol-1', generation: 3, want: 'absent' })

    const from = { snapshotId: 'snap-1', renew: true }
    await runs(target, 'fork', { disks: [disk(true)], from })
    const again = 'head -c 1000000 /data/file | sha256sum; cat /proc/sys/kernel/random/boot_id'
    expect(await sh(target, 'fork', again)).toBe(known)
    // Data of the volume that is not in the guest's memory is read from the transferred disk.
    expect(await sh(target, 'fork', 'sha256sum < /data/file')).toBe(whole)
    await gone(target, 'fork')

    await runs(target, 'late', { disks: [disk(true, 2)], from })
    expect(await sh(target, 'late', again)).not.toBe(known)
    expect(await sh(target, 'late', 'sha256sum < /data/file')).toBe(whole)
  },
)

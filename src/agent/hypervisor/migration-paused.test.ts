/** Migrates a paused VM between two agents with a real QEMU. The VM stays paused and keeps its state. */
import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { runsAll } from '../../../test/support/all-examples.ts'
import { until } from '../../../test/support/wait.ts'
import type { VmSpec, VmWant, VolumeObserved } from '../../contract/agent.ts'
import { type TestAgent, testAgent, testDisk, testSpec } from '../../../test/support/agent/agent.ts'

const hasQemu = existsSync('/usr/bin/qemu-system-x86_64')
const volumeId = '0b6f6a5e-7d1c-4f0e-9d5b-3c1f4e8a9b22'
const disk = (generation: number) => testDisk(volumeId, generation)
const desired = (generation: number, want: VmWant, change: Partial<VmSpec> = {}) => ({
  vmId: 'vm-1',
  generation,
  want,
  spec: testSpec(change),
})
const sh = async (host: TestAgent, script: string) => (await host.exec('vm-1', ['sh', '-c', script])).stdout

// Only partly in `npm test`: a VM with a volume covers one without, because only the transfer of the volume is added.
const cases = [
  ['with a volume', 1],
  ['without a volume', 0],
] as const
test.skipIf(!hasQemu).each(runsAll ? cases : cases.slice(0, 1))(
  'a paused VM %s migrates and stays paused (needs qemu)',
  { timeout: 120_000 },
  async (_, count) => {
    await using source = await testAgent({ hypervisor: 'qemu', network: 'user' })
    await using target = await testAgent({ hypervisor: 'qemu', network: 'user' })
    const disks = (generation: number) => (count === 0 ? [] : [disk(generation)])
    if (count > 0) await source.volume({ volumeId })
    await source.put(desired(1, 'running', { disks: disks(1) }))
    await source.until('vm-1', 'healthy', vm => vm.healthy)
    const boot = await sh(source, 'echo kept > /tmp/file; cat /proc/sys/kernel/random/boot_id')
    await source.put(desired(2, 'paused', { disks: disks(1) }))
    await source.until('vm-1', 'paused', vm => vm.state === 'paused')

    if (count > 0) {
      const incoming = { transferId: 't-1', vmId: 'vm-1' }
      await target.request('volume.put', {
        volumeId,
        generation: 2,
        want: 'present',
        pool: 'local',
        sizeMib: 32,
        incoming,
      })
      const listens = async () =>
        ((await target.request('volume.get', { volumeId })) as VolumeObserved).transfer?.phase === 'listening'
      await until(listens, { what: 'room for the volume' })
    }
    await target.put(desired(1, 'paused', { incoming: { migrationId: 'm-1' }, disks: disks(2) }))
    const { migration } = await target.until('vm-1', 'listening', vm => vm.migration?.phase === 'listening')
    const volumes = disks(1).map(each => ({ volumeId: each.volumeId, snapshots: [] }))
    const outgoing = { migrationId: 'm-1', uri: migration?.uri ?? '', volumes }
    await source.put(desired(3, 'paused', { outgoing, disks: disks(1) }))
    await source.until('vm-1', 'switched', vm => vm.migration?.phase === 'switched')
    await target.until('vm-1', 'paused there', vm => vm.migration?.phase === 'switched' && vm.state === 'paused')

    if (count > 0) await target.volume({ volumeId, generation: 3, arrived: { transferId: 't-1' } })
    await target.put(desired(2, 'running', { disks: disks(2) }))
    await target.until('vm-1', 'runs again', vm => vm.healthy)
    expect(await sh(target, 'cat /tmp/file /proc/sys/kernel/random/boot_id')).toBe(`kept\n${boot}`)
  },
)

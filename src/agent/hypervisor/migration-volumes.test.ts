/** Migrates a running VM with a volume between two agents, with a real QEMU. */
import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import type { DiskSpec, VmSpec, VmWant, VolumeObserved, VolumePut } from '../../contract/agent.ts'
import { type TestAgent, testAgent, testSpec, vmmsIn } from '../../../test/support/agent/agent.ts'

const hasQemu = existsSync('/usr/bin/qemu-system-x86_64')
const limit = { timeout: 120_000 }
const volumeId = '0b6f6a5e-7d1c-4f0e-9d5b-3c1f4e8a9b21'
const key = Buffer.alloc(32, 7).toString('base64')
type Kind = 'dir' | 'dir-luks'
const config = (kind: Kind) => ({
  ...({ hypervisor: 'qemu', network: 'user' } as const),
  pools: [{ name: 'local', kind, place: '' }],
})
const disk = (generation: number, kind: Kind): DiskSpec => ({
  volumeId,
  pool: 'local',
  sizeMib: 64,
  generation,
  mountPoint: '/data',
  readOnly: false,
  ...(kind === 'dir' ? {} : { key }),
})
const desired = (generation: number, change: Partial<VmSpec> = {}, want: VmWant = 'running') => ({
  vmId: 'vm-1',
  generation,
  want,
  spec: testSpec(change),
})
const putVolume = async (host: TestAgent, generation: number, kind: Kind, change: Partial<VolumePut> = {}) =>
  (await host.request('volume.put', {
    volumeId,
    generation,
    want: 'present',
    pool: 'local',
    sizeMib: 64,
    ...(kind === 'dir' ? {} : { key }),
    ...change,
  })) as VolumeObserved
const observed = async (host: TestAgent) => (await host.request('volume.get', { volumeId })) as VolumeObserved
const sh = (host: TestAgent, script: string) => host.exec('vm-1', ['sh', '-c', script], 20_000)

/** Creates a VM with a volume, takes a snapshot of the volume, and writes 24 MiB. Returns their checksum. */
async function vmWithVolume(source: TestAgent, kind: Kind): Promise<string> {
  await putVolume(source, 1, kind)
  await until(async () => (await observed(source)).state === 'ready', { what: 'the volume', timeoutMs: 30_000 })
  await source.put(desired(1, { disks: [disk(1, kind)] }))
  await source.until('vm-1', 'healthy', vm => vm.healthy && vm.disks?.[0]?.state === 'attached')
  await sh(source, 'echo before > /data/file; sync')
  const snapshot = { snapshotId: 's1', volumeId, pool: 'local', generation: 1, want: 'present' }
  const taken = async () => ((await source.request('volume.snapshot', snapshot)) as { state: string }).state === 'ready'
  await until(taken, { what: 'the snapshot', timeoutMs: 30_000 })
  await sh(source, 'echo after > /data/file; dd if=/dev/urandom of=/data/big bs=1M count=24 2>/dev/null; sync')
  return (await sh(source, 'md5sum /data/big')).stdout
}

/** Writes increasing numbers in the VM, on either host. Returns the numbers whose write and sync succeeded. */
async function writeUntil(hosts: readonly TestAgent[], signal: AbortSignal): Promise<number[]> {
  const acknowledged: number[] = []
  for (let n = 1; !signal.aborted; n++) {
    for (const host of hosts) {
      const { exitCode } = await sh(host, `echo ${n} >> /data/written && sync`).catch(() => ({ exitCode: 1 }))
      if (exitCode !== 0) continue
      acknowledged.push(n)
      break
    }
  }
  return acknowledged
}

const awaitVm = async (target: TestAgent, kind: Kind, migrationId = 'm-1', generation = 1) => {
  await putVolume(target, generation + 1, kind, { incoming: { transferId: `t-${migrationId}`, vmId: 'vm-1' } })
  await until(async () => (await observed(target)).transfer?.phase === 'listening', { what: 'room for the volume' })
  await target.put(desired(generation, { incoming: { migrationId }, disks: [disk(2, kind)] }))
  const { migration } = await target.until('vm-1', 'listening', vm => vm.migration?.phase === 'listening')
  return { migrationId, uri: migration?.uri ?? '', volumes: [{ volumeId, snapshots: ['s1'] }] }
}

test.skipIf(!hasQemu).each(['dir', 'dir-luks'] as const)(
  'a VM migrates with its volume in a %s pool: no acknowledged write is lost, and the source keeps no data (needs qemu)',
  limit,
  async kind => {
    await using source = await testAgent(config(kind))
    await using target = await testAgent(config(kind))
    const sum = await vmWithVolume(source, kind)
    const outgoing = await awaitVm(target, kind)
    const writing = new AbortController()
    const written = writeUntil([source, target], writing.signal)
    await source.put(desired(2, { outgoing, disks: [disk(1, kind)] }))
    const left = await source.until('vm-1', 'switched', vm =>
      ['switched', 'failed'].includes(vm.migration?.phase ?? ''),
    )
    expect(left.migration).toMatchObject({ phase: 'switched', percent: 100, error: null })
    expect(left.migration?.totalBytes).toBeGreaterThan(150 * 2 ** 20)
    console.info(`${kind}: downtime ${left.migration?.downtimeMs} ms`)
    await target.until('vm-1', 'healthy', vm => vm.healthy)
    await putVolume(target, 3, kind, { arrived: { transferId: 't-m-1' } })
    await until(async () => (await observed(target)).state === 'ready', { what: 'it counts' })
    await target.put(desired(2, { disks: [disk(2, kind)] }))
    await target.until('vm-1', 'attached', vm => vm.disks?.[0]?.state === 'attached')
    await sh(target, 'echo over there >> /data/file; sync')
    writing.abort()
    const acknowledged = await written
    const there = (await sh(target, 'cat /data/written')).stdout.trim().split('\n').map(Number)
    expect(acknowledged.length).toBeGreaterThan(2)
    expect(acknowledged.filter(n => !there.includes(n))).toEqual([])
    expect((await sh(target, 'md5sum /data/big')).stdout).toBe(sum)
    expect((await sh(target, 'cat /data/file')).stdout).toBe('after\nover there\n')
    // The source has no VMM left, and a desired state without the migration does not start one.
    expect(await vmmsIn(source.config.dataDir)).toEqual([])
    await source.put(desired(3, { disks: [disk(1, kind)] }, 'absent'))
    await source.until('vm-1', 'absent', vm => vm.state === 'absent')
    await putVolume(source, 3, kind, { want: 'absent' })
    await until(async () => (await observed(source)).state === 'absent', { what: 'the old one has gone' })
    expect(await readdir(join(source.config.dataDir, 'volumes', 'local'))).toEqual([])
    // A restarted agent still has the VM and its volume, and the volume's snapshot has its old contents.
    await target.restart()
    await target.until('vm-1', 'healthy', vm => vm.healthy)
    await target.put(desired(3, {}, 'stopped'))
    await target.until('vm-1', 'stopped', vm => vm.state === 'stopped')
    await putVolume(target, 4, kind, { arrived: { transferId: 't-m-1' }, restore: { snapshotId: 's1', count: 1 } })
    await until(async () => (await observed(target)).restored === 1, { what: 'put back' })
    await target.put(desired(4, { disks: [disk(3, kind)] }))
    await target.until('vm-1', 'healthy', vm => vm.healthy && vm.disks?.[0]?.state === 'attached')
    expect((await sh(target, 'cat /data/file')).stdout).toBe('before\n')
  },
)

test.skipIf(!hasQemu)(
  'a VM with a volume keeps running on the source when its migration is cancelled or fails (needs qemu)',
  limit,
  async () => {
    await using source = await testAgent(config('dir'))
    await using target = await testAgent(config('dir'))
    const sum = await vmWithVolume(source, 'dir')
    const { startedAtMs } = await source.get('vm-1')
    const outgoing = await awaitVm(target, 'dir')
    await source.put(desired(2, { outgoing, disks: [disk(1, 'dir')] }))
    await source.until('vm-1', 'copying', vm => (vm.migration?.percent ?? 0) > 0)
    await source.put(desired(3, { disks: [disk(1, 'dir')] }))
    await source.until('vm-1', 'cancelled', vm => vm.migration?.phase === 'cancelled')
    await target.put(desired(2, {}, 'absent'))
    await target.until('vm-1', 'absent', vm => vm.state === 'absent')
    await putVolume(target, 3, 'dir', { want: 'absent' })
    await until(async () => (await observed(target)).state === 'absent', { what: 'what had come is gone' })
    expect(await readdir(join(target.config.dataDir, 'volumes', 'local'))).toEqual([])
    expect(await vmmsIn(target.config.dataDir)).toEqual([])

    const again = await awaitVm(target, 'dir', 'm-2', 3)
    await source.put(desired(4, { outgoing: again, disks: [disk(1, 'dir')] }))
    await source.until('vm-1', 'copying', vm => vm.migration?.migrationId === 'm-2' && vm.migration.percent > 0)
    // The target's agent restarts. The paused VMM outlives the old agent, and the new agent kills it.
    await target.restart()
    const failed = await source.until('vm-1', 'failed', vm => vm.migration?.phase === 'failed')
    expect(failed).toMatchObject({ state: 'running', startedAtMs })
    expect((await sh(source, 'echo still here >> /data/file; sync; cat /data/file')).stdout).toBe('after\nstill here\n')
    expect((await sh(source, 'md5sum /data/big')).stdout).toBe(sum)
    expect((await target.get('vm-1')).state).not.toBe('running')
  },
)

test.skipIf(!hasQemu)(
  'a VM whose migration to this host failed can boot here, and a restarted agent does not kill it (needs qemu)',
  limit,
  async () => {
    await using target = await testAgent(config('dir'))
    await awaitVm(target, 'dir')
    // The source has given up the VM, but its message was lost. The control plane then assigns VM and volume to this
    // host.
    await target.put(desired(2, { disks: [disk(2, 'dir')] }))
    await putVolume(target, 3, 'dir')
    const { startedAtMs } = await target.until(
      'vm-1',
      'healthy',
      vm => vm.healthy && vm.disks?.[0]?.state === 'attached',
    )
    await target.restart()
    expect(await target.until('vm-1', 'healthy', vm => vm.healthy)).toMatchObject({ startedAtMs, restartCount: 0 })
  },
)

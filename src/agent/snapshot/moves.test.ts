/**
 * Transfers a VM snapshot to another host, together with the VM's volume. VMs that are forked there have the data from
 * before the snapshot.
 */
import { existsSync } from 'node:fs'
import { appendFile, chmod, readdir, rename, symlink } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { SnapshotObserved, VmSpec } from '../../contract/agent.ts'
import { runsAll } from '../../../test/support/all-examples.ts'
import type { AgentConfig } from '../base/config.ts'
import { type TestAgent, testAgent, testDir, testDisk, testSpec } from '../../../test/support/agent/agent.ts'
import { driverCases } from '../../../test/support/agent/hypervisor.ts'
import { until } from '../../../test/support/wait.ts'
import { createRoom } from './move.ts'
import { digestOf } from './store.ts'
import { type Kept, moveVolume, phase, put, observedOf, send } from '../../../test/support/agent/snapshot.ts'

const network = process.getuid?.() === 0 ? 'tap' : 'user'

const filesOf = (host: TestAgent) => join(host.config.dataDir, 'snapshots/snap-1/files')
/** Creates a VM with a volume, and takes a snapshot that includes the volume. */
async function kept(source: TestAgent, hypervisor: VmSpec['hypervisor']): Promise<Kept> {
  await source.volume({ volumeId: 'vol-1' })
  const spec = testSpec({ hypervisor, disks: [testDisk('vol-1', 1)] })
  await source.put({ vmId: 'parent', generation: 1, want: 'running', spec })
  await source.until('parent', 'healthy', vm => vm.healthy)
  return { source, kept: await source.snapshot('snap-1', 'parent') }
}

describe('a snapshot of a simulated VM that is sent to another agent', () => {
  const fake: Partial<AgentConfig> = { hypervisor: 'fake' }

  test('arrives complete, is usable once the control plane confirms it, and survives restarts of both agents', {
    timeout: 60_000,
  }, async () => {
    await using source = await testAgent(fake)
    await using target = await testAgent(fake)
    const one = await kept(source, 'fake')
    expect((await send(one, target, 't1', 2)).map(({ phase, error }) => [phase, error])).toEqual([
      ['complete', null],
      ['complete', null],
    ])
    expect(await digestOf(filesOf(target))).toMatchObject({ sha256: one.kept.sha256 })
    // The snapshot is not usable before the control plane confirms it, even after a restart of the agent.
    expect(await observedOf(target)).toMatchObject({ state: 'creating' })
    await target.restart()
    expect(await phase(target, 'complete')).toMatchObject({ transferId: 't1' })
    await put(target, 3, { arrived: { transferId: 't1' } })
    const { sha256, madeBy, disks } = one.kept
    expect(await observedOf(target)).toMatchObject({ state: 'ready', sha256, madeBy, disks })
    await target.restart()
    expect(await observedOf(target)).toMatchObject({ state: 'ready', sha256 })
    expect(await observedOf(source)).toMatchObject({ state: 'ready', sha256 })
    await put(source, 3, { want: 'absent' })
    await until(async () => (await observedOf(source)).state === 'absent', { what: 'the old one has gone' })
    expect(await readdir(join(source.config.dataDir, 'snapshots'))).toEqual([])
  })

  test('is only usable after the control plane has confirmed the transfer by its id', { timeout: 60_000 }, async () => {
    await using source = await testAgent(fake)
    await using target = await testAgent(fake)
    await put(target, 2, { arrived: { transferId: 't1' } })
    expect(await observedOf(target)).toMatchObject({
      state: 'failed',
      error: expect.stringContaining('does not have the snapshot'),
    })
    const one = await kept(source, 'fake')
    await send(one, target, 't2', 3)
    await put(target, 4, { arrived: { transferId: 't1' } })
    expect(await observedOf(target)).toMatchObject({ state: 'failed' })
    await expect(
      put(target, 5, { incoming: { transferId: 't3', sizeBytes: 1, madeBy: one.kept.madeBy ?? '' } }),
    ).rejects.toThrow('has the snapshot already')
    await put(target, 6, { want: 'absent' })
    await until(async () => (await observedOf(target)).state === 'absent', { what: 'nothing of it is there' })
  })

  test('is not taken again by a host that has lost it', { timeout: 60_000 }, async () => {
    await using source = await testAgent(fake)
    await kept(source, 'fake')
    const lost = { snapshotId: 'snap-2', vmId: 'parent', generation: 2, want: 'present', taken: true } as const
    await source.request('snapshot.put', { ...lost, outgoing: { transferId: 't1', uri: 'tcp://127.0.0.1:1?key=none' } })
    const observed = async () => (await source.request('snapshot.get', { snapshotId: 'snap-2' })) as SnapshotObserved
    await until(async () => (await observed()).transfer?.phase === 'failed', { what: 'it cannot be sent' })
    await source.request('snapshot.put', { ...lost, generation: 3 })
    expect(await observed()).toMatchObject({
      state: 'failed',
      error: expect.stringContaining('does not have the snapshot'),
    })
    await source.restart()
    expect(await observed()).toMatchObject({ state: 'failed' })
    expect(existsSync(join(source.config.dataDir, 'snapshots/snap-2/files'))).toBe(false)
  })

  test('is refused by the target if it is damaged, and the target keeps no files', { timeout: 60_000 }, async () => {
    await using source = await testAgent(fake)
    await using target = await testAgent(fake)
    const one = await kept(source, 'fake')
    const [name = ''] = await readdir(filesOf(source))
    await chmod(join(filesOf(source), name), 0o600)
    await appendFile(join(filesOf(source), name), 'rot')
    const ends = await send(one, target, 't1', 2)
    for (const { phase, error } of ends) {
      expect(phase).toBe('failed')
      expect(error).toContain('was damaged during the transfer')
    }
    expect(existsSync(filesOf(target))).toBe(false)
    await put(target, 3, { arrived: { transferId: 't1' } })
    expect(await observedOf(target)).toMatchObject({ state: 'failed' })
  })

  test('is refused at once if another VMM made it, or if it is larger than the free space', {
    timeout: 60_000,
  }, async () => {
    await using target = await testAgent(fake)
    await put(target, 2, { incoming: { transferId: 't1', sizeBytes: 1, madeBy: 'qemu 9 of elsewhere' } })
    expect(await phase(target, 'failed')).toMatchObject({ error: expect.stringContaining('qemu 9 of elsewhere') })
    const { snapshotKind } = (await target.agent.probed)[0] ?? {}
    const huge = { transferId: 't2', sizeBytes: 2 ** 50, madeBy: snapshotKind ?? '' }
    await put(target, 3, { incoming: huge })
    expect(await phase(target, 'failed')).toMatchObject({ error: expect.stringContaining('MiB free') })
  })

  test('reserves disk space on the target during the transfer, and leaves 5 % of the disk free', async () => {
    const mib = 2 ** 20
    const disk = { blocks: 10_000, bavail: 2_500, bsize: mib }
    const room = createRoom(async () => disk)
    const first = await room.reserve('/', 1_500 * mib)
    await expect(room.reserve('/', 501 * mib)).rejects.toThrow('501 MiB, and this host has 500 MiB free')
    // Bytes that were received are on disk, and must not be counted as reserved as well.
    disk.bavail -= 1_000
    first.took(1_000 * mib)
    using _second = await room.reserve('/', 500 * mib)
    first[Symbol.dispose]()
    await expect(room.reserve('/', 501 * mib)).rejects.toMatchObject({ code: 'no_space' })
  })

  test.each(['before', 'after'] as const)(
    'leaves no files on the target if it is removed %s the arrival of its volume copy',
    { timeout: 60_000 },
    async when => {
      await using source = await testAgent(fake)
      await using target = await testAgent(fake)
      const { kept: taken } = await kept(source, 'fake')
      const { sizeBytes, madeBy } = taken
      await source.put({ vmId: 'parent', generation: 2, want: 'absent', spec: testSpec({ hypervisor: 'fake' }) })
      await source.until('parent', 'gone', vm => vm.state === 'absent')
      await put(target, 2, { incoming: { transferId: 't1', sizeBytes, madeBy: madeBy ?? '' } })
      await phase(target, 'listening')
      const remove = async () => {
        await put(target, 3, { want: 'absent' })
        await until(async () => (await observedOf(target)).state === 'absent', { what: 'the snapshot has gone' })
      }
      if (when === 'before') await remove()
      await moveVolume(source, target, 'vol-1', ['snap-1'])
      const copy = join(target.config.dataDir, 'volumes/local/vol-1.snapshots/snap-1.raw')
      if (when === 'after') {
        expect(existsSync(copy)).toBe(true)
        await remove()
      }
      expect(existsSync(copy)).toBe(false)
    },
  )

  test('remains on the source if the target disappears during the transfer, and can be sent again', {
    timeout: 60_000,
  }, async () => {
    await using source = await testAgent(fake)
    await using target = await testAgent(fake)
    const one = await kept(source, 'fake')
    const { sizeBytes, madeBy, sha256 } = one.kept
    await put(target, 2, { incoming: { transferId: 't1', sizeBytes, madeBy: madeBy ?? '' } })
    const { uri } = await phase(target, 'listening')
    await target.restart()
    await put(source, 2, { outgoing: { transferId: 't1', uri: uri ?? '' } })
    await phase(source, 'failed')
    expect(await observedOf(source)).toMatchObject({ state: 'ready', sha256 })
    await put(target, 3, { want: 'absent' })
    await until(async () => (await observedOf(target)).state === 'absent', { what: 'given up' })
    expect((await send(one, target, 't2', 4)).map(each => each.phase)).toEqual(['complete', 'complete'])
  })
})

/**
 * Hypervisors whose snapshots can be transferred. `marker` is a command that prints data from the parent VM's memory.
 */
const cases = (await driverCases())
  .filter(
    ({ config }) => config.hypervisor === 'gvisor' || (config.hypervisor === 'qemu' && config.network === network),
  )
  .map(one => ({
    ...one,
    marker: one.config.hypervisor === 'qemu' ? 'cat /proc/sys/kernel/random/boot_id' : 'cat /dev/shm/memory',
  }))

// Only partly in `npm test`: gVisor covers QEMU, because it takes less time. Without gVisor, QEMU runs.
const quickest = cases.findLast(({ skip }) => !skip) ?? cases.at(-1)
const tried = runsAll ? cases : cases.filter(one => one === quickest)

describe.each(tried)('a VM snapshot with $name', ({ skip, config, spec: own, marker }) => {
  test.skipIf(skip)(
    'is transferred with its volume, and a fork starts on the target host with a clone of the volume',
    { timeout: 240_000 },
    async () => {
      await using cache = await testDir()
      await using otherCache = await testDir()
      const usual = join(homedir(), '.cache', 'mote')
      const cacheDir = await cacheWithoutImages(usual, cache.path)
      await using source = await testAgent({ ...config, cacheDir })
      // The target's cache has another path than the source's and no base yet, so the target must build the base.
      const elsewhere = await cacheWithoutImages(usual, otherCache.path)
      await using target = await testAgent({ ...config, cacheDir: elsewhere })
      const sh = async (host: TestAgent, vmId: string, script: string) => {
        const { stdout, stderr } = await host.exec(vmId, ['sh', '-c', script])
        return (stdout + stderr).trim()
      }
      await source.volume({ volumeId: 'vol-1' })
      const spec = testSpec({ ...own, hostname: 'parent', disks: [testDisk('vol-1', 1)] })
      await source.put({ vmId: 'parent', generation: 1, want: 'running', spec })
      await source.until('parent', 'healthy', vm => vm.healthy)
      const writes =
        'head -c 3000000 /dev/urandom > /data/file; echo memory > /tmp/state; head -c 9 /dev/urandom | base64 > /dev/shm/memory; sync'
      const known = await sh(source, 'parent', `${writes}; sha256sum < /data/file; ${marker}`)
      const taken = await source.snapshot('snap-1', 'parent')
      expect(taken).toMatchObject({ state: 'ready', disks: [{ volumeId: 'vol-1', copied: true }] })
      await sh(source, 'parent', 'echo later > /data/file; echo later > /tmp/state; sync')
      await source.put({ vmId: 'parent', generation: 2, want: 'absent', spec })
      await source.until('parent', 'gone', vm => vm.state === 'absent')

      // If the target has neither image nor base, the snapshot would be unusable, so the transfer fails.
      await rename(join(cacheDir, 'bases'), join(cacheDir, 'bases.away'))
      const image = join(target.config.imageDir, 'hello')
      await rename(image, `${image}.away`)
      for (const { phase, error } of await send({ source, kept: taken }, target, 't0', 2)) {
        expect(phase).toBe('failed')
        expect(error).toContain('the image that the snapshot is based on is not on this host')
      }
      expect(existsSync(filesOf(target))).toBe(false)
      await rename(`${image}.away`, image)
      const [there] = await send({ source, kept: taken }, target, 't1', 3)
      expect(there).toMatchObject({ phase: 'complete', error: null })
      await moveVolume(source, target, 'vol-1', ['snap-1'])
      await put(target, 4, { arrived: { transferId: 't1' } })
      await put(source, 4, { want: 'absent' })
      await source.volume({ volumeId: 'vol-1', generation: 3, want: 'absent' })

      await target.volume({ volumeId: 'clone-1', from: { volumeId: 'vol-1', snapshotId: 'snap-1' } })
      const from = { snapshotId: 'snap-1', renew: true, clones: [{ volumeId: 'clone-1', of: 'vol-1' }] }
      const fork = testSpec({ ...own, hostname: 'fork', disks: [testDisk('clone-1', 1)], from })
      await target.put({ vmId: 'fork', generation: 1, want: 'running', spec: fork })
      await target.until('fork', 'healthy', vm => vm.healthy)
      const found = await sh(target, 'fork', `sha256sum < /data/file; ${marker}; cat /tmp/state`)
      expect(found).toBe(`${known}\nmemory`)
      // A fork that boots instead of restoring memory reads the same data from its disk.
      await target.put({ vmId: 'fork', generation: 2, want: 'running', spec: { ...fork, vcpus: 2 } })
      await target.until('fork', 'booted', vm => vm.generation === 2 && vm.healthy)
      expect(await sh(target, 'fork', 'sha256sum < /data/file')).toBe(known.split('\n')[0])
    },
  )
})

/** Creates a cache directory with everything that an agent downloads and builds, except images. */
async function cacheWithoutImages(cacheDir: string, dir: string): Promise<string> {
  for (const name of await readdir(cacheDir)) if (name !== 'bases') await symlink(join(cacheDir, name), join(dir, name))
  return dir
}

/** Transfers a volume with its snapshots: between all kinds of pools, and between two agents. */
import { existsSync } from 'node:fs'
import { open, readdir, readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { runsAll } from '../../../../test/support/all-examples.ts'
import { fakeLvm } from '../../../../test/support/fake-lvm.ts'
import { until } from '../../../../test/support/wait.ts'
import { type VmSpec, type VmWant, type VolumeObserved, type VolumePut } from '../../../contract/agent.ts'
import { dirPool } from '../../disk/dir-pool.ts'
import { lvmThinPool } from '../../disk/lvm-thin-pool.ts'
import type { VolumePool } from '../../disk/pool.ts'
import { loopFileSystem, whyNoLoop, whyNoZfs, zfsPoolInFile } from '../../../../test/support/agent/disk.ts'
import { zfsPool } from '../../disk/zfs-pool.ts'
import { listenForVm, openWire } from '../../hypervisor/transfer/wire.ts'
import { type TestAgent, testAgent, testDir, testDisk, testSpec } from '../../../../test/support/agent/agent.ts'
import { digestAt, sizeOf } from './content.ts'
import { receiveVolume, volumeReceiver } from './receive.ts'
import { createSender, protocol } from './send.ts'

const mib = 2 ** 20
const volumeId = '0b6f6a5e-7d1c-4f0e-9d5b-3c1f4e8a9b21'
const key = Buffer.alloc(32, 7).toString('base64')

interface Place extends AsyncDisposable {
  readonly pool: VolumePool
}
interface Kind {
  readonly missing: string | undefined
  open(dir: string): Promise<Place>
}
const plain = (pool: VolumePool): Place => ({ pool, [Symbol.asyncDispose]: async () => undefined })
const kinds = {
  dir: { missing: undefined, open: async dir => plain(dirPool('local', join(dir, 'pool'))) },
  'dir-luks': { missing: undefined, open: async dir => plain(dirPool('local', join(dir, 'pool'), true)) },
  xfs: {
    missing: await whyNoLoop('xfs'),
    async open(dir) {
      const place = await loopFileSystem('xfs', dir, 320)
      const pool = dirPool('local', join(place.path, 'pool'))
      return { pool, [Symbol.asyncDispose]: async () => place[Symbol.asyncDispose]() }
    },
  },
  zfs: {
    missing: await whyNoZfs(),
    async open(dir) {
      const place = await zfsPoolInFile(dir, 400)
      const pool = zfsPool({ name: 'tank', dataset: place.dataset })
      return { pool, [Symbol.asyncDispose]: async () => place[Symbol.asyncDispose]() }
    },
  },
  'lvm-thin (strict fake)': {
    missing: undefined,
    async open(dir) {
      const devDir = join(dir, 'dev')
      return plain(lvmThinPool({ name: 'fast', group: 'vg', thinPool: 'pool', run: fakeLvm(devDir).run, devDir }))
    },
  },
} satisfies Record<string, Kind>

type Pair = readonly [keyof typeof kinds, keyof typeof kinds]
const few: readonly Pair[] = [
  ['dir', 'dir'],
  ['dir', 'xfs'],
  ['dir', 'lvm-thin (strict fake)'],
]
// Not in `npm test`: the few pairs above cover these. A pool of kind dir-luks copies files like one of kind dir, one of
// kind zfs writes to a block device like one of kind lvm-thin, and src/agent/disk/pools.test.ts uses pools of kind zfs.
const more: readonly Pair[] = [
  ['xfs', 'zfs'],
  ['dir-luks', 'dir-luks'],
  ['zfs', 'dir'],
  ['lvm-thin (strict fake)', 'dir'],
]
const pairs = runsAll ? [...few, ...more] : few

async function write(pool: VolumePool, at: number, data: Buffer): Promise<void> {
  const file = await open(await pool.open(volumeId, 1), 'r+')
  await file.write(data, 0, data.length, at)
  await file.sync()
  await file.close()
}
const digestOfAll = async (path: string) => digestAt(path, await sizeOf(path))
const digest = async (pool: VolumePool) => digestOfAll(await pool.open(volumeId, 1))

/** Sends a volume from one pool to another over a connection. */
async function move(from: VolumePool, to: VolumePool, snapshots: readonly string[], corrupt = false): Promise<number> {
  const listener = await listenForVm('127.0.0.1', protocol)
  const source = await openWire(listener.uri, protocol)
  const target = await listener.wire
  const receiver = volumeReceiver(to, volumeId, new AbortController().signal)
  const spoil = async (offset: number, data: Buffer) =>
    receiver.data(offset, corrupt ? Buffer.alloc(data.length, 1) : data)
  const received = receiveVolume(target, { ...receiver, data: spoil }, volumeId, async () => undefined)
  received.catch(() => undefined)
  let sent = 0
  const sender = createSender(source, { volumeId, pool: from, snapshots }, one => (sent = one.transferredBytes))
  try {
    await sender.sendSnapshots()
    await sender.sendContent()
    await sender.settle()
    await received
    return sent
  } finally {
    source.close()
    target.close()
  }
}

describe('a volume transfer between two pools', () => {
  test.each(pairs.map(([from, to]) => ({ from, to })))(
    'copies content and snapshots from a pool of kind $from to one of kind $to',
    { timeout: 120_000 },
    async ({ from, to }) => {
      const missing = kinds[from].missing ?? kinds[to].missing
      if (missing !== undefined) return void console.warn(`not tried: ${missing}`)
      await using dirs = new AsyncDisposableStack()
      const [here, there] = [dirs.use(await testDir()), dirs.use(await testDir())]
      const { pool: source } = dirs.use(await kinds[from].open(here.path))
      const { pool: target } = dirs.use(await kinds[to].open(there.path))
      await source.create(volumeId, 24, undefined, key)
      await write(source, 14 * mib, Buffer.alloc(2 * mib, 'one'))
      await source.snapshot(volumeId, 'first')
      await source.grow(volumeId, 32)
      await write(source, 14 * mib, Buffer.alloc(mib, 0))
      await write(source, 28 * mib, Buffer.alloc(mib, 'two'))
      await source.snapshot(volumeId, 'second')
      await write(source, 18 * mib, Buffer.alloc(mib, 'three'))
      const now = await digest(source)
      const sent = await move(source, target, ['first', 'second'])
      // Neither holes nor blocks that two snapshots share are sent more often than once.
      expect(sent).toBeLessThan(12 * mib)
      expect(await digest(target)).toBe(now)
      for (const snapshotId of ['first', 'second']) {
        await source.restore(volumeId, snapshotId)
        await target.restore(volumeId, snapshotId)
        expect(await digest(target)).toBe(await digest(source))
      }
      const { usedBytes } = await target.usage(volumeId)
      expect(usedBytes).toBeLessThan(32 * mib)
    },
  )

  // A snapshot from before the volume grew may be sent after a larger snapshot.
  const shrinking: readonly Pair[] = [
    ['dir', 'dir'],
    ['dir', 'zfs'],
    ['dir', 'lvm-thin (strict fake)'],
    ['lvm-thin (strict fake)', 'dir'],
  ]
  // Only partly in `npm test`: the pair of kind dir covers the others.
  test.each((runsAll ? shrinking : shrinking.slice(0, 1)).map(([from, to]) => ({ from, to })))(
    'copies a smaller snapshot after a larger one from a pool of kind $from to one of kind $to',
    { timeout: 120_000 },
    async ({ from, to }) => {
      const missing = kinds[from].missing ?? kinds[to].missing
      if (missing !== undefined) return void console.warn(`not tried: ${missing}`)
      await using dirs = new AsyncDisposableStack()
      const [here, there] = [dirs.use(await testDir()), dirs.use(await testDir())]
      const { pool: source } = dirs.use(await kinds[from].open(here.path))
      const { pool: target } = dirs.use(await kinds[to].open(there.path))
      await source.create(volumeId, 24)
      await write(source, 14 * mib, Buffer.alloc(mib, 'one'))
      await source.snapshot(volumeId, 'small')
      await source.grow(volumeId, 32)
      await write(source, 26 * mib, Buffer.alloc(mib, 'only in the snapshot'))
      await write(source, 28 * mib, Buffer.alloc(mib, 'two'))
      await source.snapshot(volumeId, 'large')
      await write(source, 26 * mib, Buffer.alloc(mib, 0))
      const now = await digest(source)
      await move(source, target, ['large', 'small'])
      expect(await digest(target)).toBe(now)
      await target.restore(volumeId, 'small')
      await source.restore(volumeId, 'small')
      const small = await digestAt(await source.open(volumeId, 1), 24 * mib)
      expect(await digestAt(await target.open(volumeId, 1), 24 * mib)).toBe(small)
    },
  )

  test('fails if content is corrupted in transit', async () => {
    await using dir = await testDir()
    const [source, target] = ['a', 'b'].map(name => dirPool('local', join(dir.path, name)))
    if (!source || !target) return
    await source.create(volumeId, 32)
    await expect(move(source, target, [], true)).rejects.toThrow('the digest of the received data differs')
  })
})

const fake = { hypervisor: 'fake' } as const
const disk = (generation: number) => testDisk(volumeId, generation)
const desired = (vmId: string, generation: number, change: Partial<VmSpec> = {}, want: VmWant = 'running') => ({
  vmId,
  generation,
  want,
  spec: testSpec({ hypervisor: 'fake', ...change }),
})
const fileOf = (host: TestAgent) => join(host.config.dataDir, 'volumes', 'local', `${volumeId}.raw`)
const put = async (host: TestAgent, generation: number, change: Partial<VolumePut> = {}) =>
  (await host.request('volume.put', {
    volumeId,
    generation,
    want: 'present',
    pool: 'local',
    sizeMib: 32,
    ...change,
  })) as VolumeObserved
const observed = async (host: TestAgent) => (await host.request('volume.get', { volumeId })) as VolumeObserved
const phase = (host: TestAgent, wanted: string) =>
  until(
    async () => {
      const { transfer } = await observed(host)
      return transfer?.phase === wanted ? transfer : undefined
    },
    { what: `the transfer is ${wanted}` },
  )
const listen = async (target: TestAgent, transferId = 't1', generation = 2) => {
  await put(target, generation, { incoming: { transferId } })
  return (await phase(target, 'listening')).uri ?? ''
}
const ready = (host: TestAgent) => until(async () => (await observed(host)).state === 'ready', { what: 'it is ready' })
async function fill(host: TestAgent, text: string): Promise<void> {
  const file = await open(fileOf(host), 'r+')
  await file.write(text, 16 * mib)
  await file.close()
}

describe('a volume transfer between two agents', () => {
  test('sends content while a VM uses the volume, sends the rest after detachment, and ends when the control plane confirms it', async () => {
    await using source = await testAgent(fake)
    await using target = await testAgent(fake)
    await source.volume({ volumeId })
    await source.put(desired('vm-1', 1, { disks: [disk(1)] }))
    await source.until('vm-1', 'attached', vm => vm.disks?.[0]?.state === 'attached')
    await source.request('volume.snapshot', {
      snapshotId: 's1',
      volumeId,
      pool: 'local',
      generation: 1,
      want: 'present',
    })
    await until(async () => existsSync(fileOf(source).replace('.raw', '.snapshots/s1.raw')), { what: 'the snapshot' })
    const outgoing = { transferId: 't1', uri: await listen(target), snapshots: ['s1'], final: false }
    await put(source, 2, { outgoing })
    await phase(source, 'copied')
    await fill(source, 'written after the first copy')
    await put(source, 3, { outgoing: { ...outgoing, final: true } })
    await put(target, 3, { incoming: { transferId: 't1' } })
    // From now on, no VM can open the volume on either host, and the transfer waits until the current VM detaches it.
    await source.put(desired('vm-2', 1, { disks: [disk(2)] }))
    await source.until('vm-2', 'refused', vm => vm.error?.code === 'volume_not_ready')
    expect((await observed(source)).transfer?.phase).toBe('copied')
    await target.put(desired('vm-3', 1, { disks: [disk(2)] }))
    await target.until('vm-3', 'refused', vm => vm.error?.code === 'volume_not_ready')
    await source.put(desired('vm-1', 2, {}, 'stopped'))
    await phase(source, 'complete')
    await target.restart()
    await put(target, 4, { arrived: { transferId: 't1' } })
    await ready(target)
    expect(await digestOfAll(fileOf(target))).toBe(await digestOfAll(fileOf(source)))
    expect((await readFile(fileOf(target))).includes('written after the first copy')).toBe(true)
    expect(existsSync(fileOf(target).replace('.raw', '.snapshots/s1.raw'))).toBe(true)
    await put(source, 4, { want: 'absent' })
    await until(async () => (await observed(source)).state === 'absent', { what: 'the source volume is removed' })
    expect(await readdir(join(source.config.dataDir, 'volumes', 'local'))).toEqual([])
    await until(async () => (await readdir(join(source.config.dataDir, 'volume-snapshot-notes'))).length === 0, {
      what: 'records of its snapshots are removed',
    })
    await target.until('vm-3', 'attached', vm => vm.disks?.[0]?.state === 'attached')
  })

  test('a canceled volume transfer leaves the source unchanged and no content on the target', async () => {
    await using source = await testAgent(fake)
    await using target = await testAgent(fake)
    await source.volume({ volumeId })
    const uri = await listen(target)
    const address = new URL(uri)
    connect(Number(address.port), address.hostname)
      .on('error', () => undefined)
      .end('a stranger')
    await target.restart()
    await put(source, 2, { outgoing: { transferId: 't1', uri, snapshots: [], final: true } })
    expect((await phase(source, 'failed')).error).toContain('does not answer')
    await put(target, 3, { arrived: { transferId: 't1' } })
    await until(async () => (await observed(target)).state === 'failed', { what: 'the volume is refused' })
    expect((await observed(target)).error).toContain('does not have the content')
    await put(target, 4, { want: 'absent' })
    await until(async () => (await observed(target)).state === 'absent', { what: 'the volume is removed' })
    await put(source, 3)
    await source.put(desired('vm-1', 1, { disks: [disk(1)] }))
    await source.until('vm-1', 'attached', vm => vm.disks?.[0]?.state === 'attached')
    await expect(put(source, 4, { incoming: { transferId: 't2' } })).rejects.toThrow('already')
  })
})

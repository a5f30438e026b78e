import { createHash } from 'node:crypto'
import { chown, mkdir, open, readFile, readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { fakeLvm } from '../../../test/support/fake-lvm.ts'
import { fakeCluster } from '../../../test/support/fake-rbd.ts'
import { run } from '../../lib/exec.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { parsePools } from '../base/pool-config.ts'
import { dirPool } from './dir-pool.ts'
import { lvmThinPool } from './lvm-thin-pool.ts'
import type { VolumePool } from './pool.ts'
import { rbdPool } from './rbd-pool.ts'
import {
  type LoopFileSystem,
  loopFileSystem,
  whyNoLoop,
  whyNoZfs,
  zfsPoolInFile,
} from '../../../test/support/agent/disk.ts'
import { zfsPool } from './zfs-pool.ts'

interface Place extends AsyncDisposable {
  readonly pool: VolumePool
  /** Names of everything in the pool, to detect leftovers. */
  names(): Promise<string[]>
}

interface Kind {
  readonly name: string
  /** Why this kind cannot be tested on this host. */
  readonly missing: string | undefined
  /** Whether snapshots and clones share blocks with their source. */
  readonly sharesBlocks: boolean
  /** Whether written data is counted only with the next snapshot, or up to half a minute later. */
  readonly countsLate?: boolean
  open(dir: string): Promise<Place>
}

const inDirectory = (pool: VolumePool, dir: string, release: () => Promise<void>): Place => ({
  pool,
  names: async () => (await readdir(dir, { recursive: true })).filter(name => name.includes('.raw')),
  [Symbol.asyncDispose]: release,
})

const onLoop = async (kind: LoopFileSystem): Promise<Kind> => ({
  name: `dir on ${kind}`,
  missing: await whyNoLoop(kind),
  sharesBlocks: true,
  async open(dir) {
    const place = await loopFileSystem(kind, dir, 640)
    const release = async () => place[Symbol.asyncDispose]()
    return inDirectory(dirPool('local', join(place.path, 'pool')), place.path, release)
  },
})

const kinds: readonly Kind[] = [
  {
    name: 'dir',
    missing: undefined,
    sharesBlocks: false,
    open: async dir => inDirectory(dirPool('local', join(dir, 'pool')), dir, async () => undefined),
  },
  await onLoop('btrfs'),
  await onLoop('xfs'),
  {
    name: 'zfs',
    missing: await whyNoZfs(),
    sharesBlocks: true,
    countsLate: true,
    async open(dir) {
      const place = await zfsPoolInFile(dir, 640)
      const { dataset } = place
      const names = async () =>
        (await run('zfs', ['list', '-H', '-r', '-t', 'all', '-o', 'name', dataset])).trim().split('\n')
      return {
        pool: zfsPool({ name: 'tank', dataset }),
        names: async () => (await names()).filter(name => name !== dataset),
        [Symbol.asyncDispose]: async () => place[Symbol.asyncDispose](),
      }
    },
  },
  {
    name: 'lvm-thin (strict fake)',
    missing: undefined,
    sharesBlocks: false,
    async open(dir) {
      const lvm = fakeLvm(join(dir, 'dev'))
      const options = { name: 'fast', group: 'vg', thinPool: 'pool', run: lvm.run, devDir: join(dir, 'dev') }
      return {
        pool: lvmThinPool(options),
        names: async () => lvm.names(),
        [Symbol.asyncDispose]: async () => undefined,
      }
    },
  },
  {
    name: 'rbd (strict fake)',
    missing: undefined,
    sharesBlocks: false,
    async open(dir) {
      const cluster = fakeCluster(join(dir, 'cluster'))
      const pool = rbdPool({ ...rbdOptions(dir), run: cluster.client('here') })
      return { pool, names: async () => [...cluster.images.keys()], [Symbol.asyncDispose]: async () => undefined }
    },
  },
  {
    name: 'rbd (a real cluster)',
    missing: process.env.MOTE_TEST_CEPH_CONF ? undefined : 'needs MOTE_TEST_CEPH_CONF and rbd-fuse',
    sharesBlocks: true,
    open: dir => realCluster(dir),
  },
]

const mib = 2 ** 20

function rbdOptions(dir: string) {
  return { name: 'cluster', pool: 'rbd', client: null, scratchDir: join(dir, 'scratch') }
}

/** Everything except the kernel's block device is real: images are opened as files of rbd-fuse, which uses librbd. */
async function realCluster(dir: string): Promise<Place> {
  const mountPoint = join(dir, 'fuse')
  await mkdir(mountPoint)
  const env = { CEPH_CONF: process.env.MOTE_TEST_CEPH_CONF ?? '' }
  const rbd = (...args: string[]) => run('rbd', args, { env })
  const mount = () => run('rbd-fuse', ['-c', env.CEPH_CONF, '-p', 'rbd', mountPoint])
  await mount()
  const mapped = new Set<string>()
  const fileOf = (image: string) => join(mountPoint, image)
  const asFiles = async (program: string, args: readonly string[]): Promise<string> => {
    const [noun, verb, ...rest] = args
    if (noun !== 'device') return run(program, args, { env })
    const image = (rest.at(-1) ?? '').split('/').at(-1) ?? ''
    if (verb === 'map') mapped.add(image)
    if (verb === 'map') return `${fileOf(image)}\n`
    if (verb === 'unmap') {
      // rbd-fuse keeps images open and locked while it runs.
      mapped.delete(image)
      await run('umount', [mountPoint])
      await mount()
    }
    return JSON.stringify([...mapped].map(name => ({ id: '0', pool: 'rbd', name, device: fileOf(name) })))
  }
  const names = async (): Promise<string[]> => JSON.parse(await rbd('ls', 'rbd', '--format', 'json'))
  const pool = rbdPool({ ...rbdOptions(dir), run: asFiles })
  return {
    pool,
    names,
    async [Symbol.asyncDispose]() {
      await run('umount', [mountPoint])
      for (const name of await names()) await pool.remove(name.slice(2))
    },
  }
}

/** The contract of every pool. */
describe.each(kinds)('pool $name', ({ name, missing, sharesBlocks, countsLate, open: openKind }) => {
  const it = test.skipIf(missing !== undefined)
  const because = missing === undefined ? '' : ` (skipped: ${name} ${missing})`

  it(`a volume is created once, takes almost no space, and has an empty ext4${because}`, async () => {
    await using dir = await testDir()
    await using place = await openKind(dir.path)
    const { pool } = place
    await pool.create('v1', 64)
    const file = await pool.open('v1', 1)
    expect(await contentSize(file)).toBe(64 * mib)
    expect((await bytesAt(file, 0x438, 2)).readUInt16LE()).toBe(0xef53) // the superblock's magic number (ext4(5))
    expect((await pool.usage('v1')).usedBytes).toBeLessThan(32 * mib)
    await write(file, 0, 'kept')
    await pool.create('v1', 64)
    expect(await pool.open('v1', 1)).toBe(file)
    expect(await text(file, 4)).toBe('kept')
    await pool.close('v1')
    await pool.close('v1')
  })

  it(`written data is counted (I45)${because}`, async () => {
    await using dir = await testDir()
    await using place = await openKind(dir.path)
    const { pool } = place
    await pool.create('v1', 64)
    const before = await pool.usage('v1')
    const file = await pool.open('v1', 1)
    await fill(file, 40 * mib, 60 * mib)
    if (countsLate) {
      await pool.snapshot('v1', 'now')
      await pool.removeSnapshot('v1', 'now')
    }
    const { usedBytes, snapshotBytes } = await pool.usage('v1')
    expect(usedBytes - before.usedBytes).toBeGreaterThanOrEqual(12 * mib)
    expect(usedBytes).toBeLessThanOrEqual(64 * mib)
    expect(snapshotBytes).toBe(0)
    expect(await pool.freeBytes()).toBeGreaterThan(64 * mib)
    await pool.close('v1')
  })

  it(`snapshots, clones and restored volumes are equal to the byte and independent (I42, I44)${because}`, async () => {
    await using dir = await testDir()
    await using place = await openKind(dir.path)
    const { pool } = place
    await pool.create('v1', 32)
    const file = await pool.open('v1', 1)
    await fill(file, 4 * mib, 9 * mib)
    const then = await digest(file)
    await pool.snapshot('v1', 's1')
    await write(file, 5 * mib, 'changed')
    const now = await digest(file)
    expect(now).not.toBe(then)
    // Repeated after a crash, the snapshot keeps its first content.
    await pool.snapshot('v1', 's1')
    await pool.create('v2', 32, { volumeId: 'v1', snapshotId: 's1' })
    const clone = await pool.open('v2', 1)
    expect(await digest(clone)).toBe(then)
    await write(clone, 0, 'the clone')
    expect(await digest(file)).toBe(now)
    await pool.close('v1')
    for (const _ of ['once', 'and again after a crash']) await pool.restore('v1', 's1')
    expect(await digest(await pool.open('v1', 2))).toBe(then)
    await pool.close('v1')
    await pool.removeSnapshot('v1', 's1')
    await pool.removeSnapshot('v1', 's1')
    await expect(pool.restore('v1', 's1')).rejects.toMatchObject({ code: 'snapshot_missing' })
    await expect(pool.create('v3', 32, { volumeId: 'v1', snapshotId: 's1' })).rejects.toMatchObject({
      code: 'snapshot_missing',
    })
    expect(await digest(await pool.open('v1', 2))).toBe(then)
    await pool.close('v1')
    await pool.close('v2')
  })

  it(`a volume grows while it is open, never shrinks, and keeps its content${because}`, async () => {
    await using dir = await testDir()
    await using place = await openKind(dir.path)
    const { pool } = place
    await pool.create('v1', 32)
    await write(await pool.open('v1', 1), 20 * mib, 'kept')
    await pool.snapshot('v1', 's1')
    for (const _ of ['once', 'and again after a crash']) await pool.grow('v1', 48)
    await pool.grow('v1', 16)
    const file = await pool.open('v1', 1)
    expect(await contentSize(file)).toBe(48 * mib)
    expect((await bytesAt(file, 20 * mib, 4)).toString()).toBe('kept')
    await pool.close('v1')
    // Snapshots do not grow; clones and restored volumes grow separately.
    await pool.restore('v1', 's1')
    expect(await contentSize(await pool.open('v1', 2))).toBe(32 * mib)
    await pool.grow('v1', 48)
    expect(await contentSize(await pool.open('v1', 2))).toBe(48 * mib)
    await pool.close('v1')
    await expect(pool.grow('v2', 48)).rejects.toMatchObject({ code: 'volume_missing' })
  })

  it(`a volume is removed with its snapshots, and a clone survives (I42)${because}`, async () => {
    await using dir = await testDir()
    await using place = await openKind(dir.path)
    const { pool } = place
    await pool.create('v1', 16)
    await write(await pool.open('v1', 1), 100, 'one')
    await pool.close('v1')
    for (const id of ['s1', 's2']) await pool.snapshot('v1', id)
    await pool.create('v2', 16, { volumeId: 'v1', snapshotId: 's1' })
    await pool.remove('v1')
    await pool.remove('v1')
    await expect(pool.open('v1', 1)).rejects.toMatchObject({ code: 'volume_missing' })
    expect((await bytesAt(await pool.open('v2', 1), 100, 3)).toString()).toBe('one')
    await pool.close('v2')
    await pool.remove('v2')
    expect(await place.names()).toEqual([])
  })

  test.skipIf(missing !== undefined || !sharesBlocks)(
    `a snapshot of a large volume takes almost no space${because}`,
    async () => {
      await using dir = await testDir()
      await using place = await openKind(dir.path)
      const { pool } = place
      await pool.create('v1', 256)
      const file = await pool.open('v1', 1)
      await fill(file, 16 * mib, 176 * mib)
      const before = await pool.freeBytes()
      for (const id of ['s1', 's2', 's3']) await pool.snapshot('v1', id)
      await pool.create('v2', 256, { volumeId: 'v1', snapshotId: 's2' })
      expect(before - (await pool.freeBytes())).toBeLessThan(64 * mib)
      await pool.close('v1')
    },
  )

  it(`ids that could escape the pool are refused${because}`, async () => {
    await using dir = await testDir()
    await using place = await openKind(dir.path)
    for (const id of ['../x', '', 'a/b', '.', '-rf']) {
      await expect(place.pool.create(id, 16)).rejects.toThrow(/id/)
      await expect(place.pool.snapshot('v1', id)).rejects.toThrow(/id/)
      await expect(place.pool.remove(id)).rejects.toThrow(/id/)
    }
  })
})

describe('a new volume', () => {
  test.skipIf(process.getuid?.() !== 0)('starts with the content and owners of a directory (needs root)', async () => {
    await using dir = await testDir()
    const directory = join(dir.path, 'content')
    await mkdir(join(directory, 'below'), { recursive: true })
    await writeFile(join(directory, 'below', 'file'), 'from the image')
    for (const path of [directory, join(directory, 'below')]) await chown(path, 999, 998)
    const pool = dirPool('local', join(dir.path, 'pool'))
    await pool.create('v1', 64, { directory })
    const file = await pool.open('v1', 1)
    const debugfs = (command: string) => run('debugfs', ['-R', command, file])
    expect(await debugfs('cat /below/file')).toBe('from the image')
    for (const path of ['/', '/below']) expect(await debugfs(`stat ${path}`)).toMatch(/User:\s+999\s+Group:\s+998/)
  })
})

describe('lvm-thin', () => {
  test('the next operation finishes a restore that a crash interrupted (I43)', async () => {
    await using dir = await testDir()
    const lvm = fakeLvm(join(dir.path, 'dev'))
    const cut = { before: '' }
    const run = async (program: string, args: readonly string[]) => {
      if (program === cut.before) throw new Error('the power went')
      return lvm.run(program, args)
    }
    const pool = lvmThinPool({ name: 'fast', group: 'vg', thinPool: 'pool', run, devDir: join(dir.path, 'dev') })
    await pool.create('v1', 16)
    await write(await pool.open('v1', 1), 0, 'then')
    await pool.snapshot('v1', 's1')
    await write(await pool.open('v1', 1), 0, 'now!')
    for (const [program, content] of [
      ['lvremove', 'now!'],
      ['lvrename', 'then'],
    ] as const) {
      cut.before = program
      await expect(pool.restore('v1', 's1')).rejects.toThrow('the power went')
      cut.before = ''
      expect(await text(await pool.open('v1', 2), 4)).toBe(content)
    }
    await pool.restore('v1', 's1')
    expect(lvm.names().sort()).toEqual(['s.v1.s1', 'v.v1'])
  })
})

describe('rbd', () => {
  test('a newer attachment fences the previous host, which cannot attach again', async () => {
    await using dir = await testDir()
    const cluster = fakeCluster(join(dir.path, 'cluster'))
    const [one, two] = ['one', 'two'].map(host =>
      rbdPool({ ...rbdOptions(dir.path), run: cluster.client(host), patienceMs: 300 }),
    )
    await one!.create('v1', 16)
    await one!.open('v1', 1)
    await two!.open('v1', 2)
    // The previous host had time to close the image.
    expect([...cluster.blocklist]).toEqual(['client.one'])
    expect(cluster.images.get('v.v1')?.locker).toBe('client.two')
    await one!.close('v1')
    await expect(one!.open('v1', 1)).rejects.toMatchObject({ code: 'stale_volume_generation' })
    expect(cluster.images.get('v.v1')?.locker).toBe('client.two')
  })

  test('a reader fences no host, waits for the writer, and is refused after a newer writer', async () => {
    await using dir = await testDir()
    const cluster = fakeCluster(join(dir.path, 'cluster'))
    const at = (host: string) => rbdPool({ ...rbdOptions(dir.path), run: cluster.client(host), patienceMs: 300 })
    const [one, two, writer] = [at('one'), at('two'), at('writer')]
    await one.create('v1', 16)
    await writer.open('v1', 1, 'write')
    await expect(one.open('v1', 1, 'read')).rejects.toMatchObject({ code: 'volume_in_use' })
    await writer.close('v1')
    const files = [await one.open('v1', 1, 'read'), await two.open('v1', 1, 'read')]
    expect(await Promise.all(files.map(file => contentSize(file)))).toEqual([16 * mib, 16 * mib])
    expect(cluster.images.get('v.v1')?.locker).toBeUndefined()
    await one.close('v1')
    await two.close('v1')
    // A writer is fenced as before.
    await writer.open('v1', 2, 'write')
    await two.open('v1', 3, 'write')
    expect(cluster.images.get('v.v1')?.locker).toBe('client.two')
    expect([...cluster.blocklist]).toEqual(['client.writer'])
    await expect(one.open('v1', 2, 'read')).rejects.toMatchObject({ code: 'stale_volume_generation' })
    expect(cluster.images.get('v.v1')?.locker).toBe('client.two')
  })
})

describe('an rbd image that a host is closing', () => {
  test('is waited for, because breaking its lock would fence that host with all its images', async () => {
    await using dir = await testDir()
    const cluster = fakeCluster(join(dir.path, 'cluster'))
    const asked = { locks: 0 }
    const leaving = rbdPool({ ...rbdOptions(dir.path), run: cluster.client('leaving') })
    const coming = rbdPool({
      ...rbdOptions(dir.path),
      run: async (program, args) => {
        // The host closes the image between two checks.
        if (args.includes('lock') && ++asked.locks === 2) await leaving.close('v1')
        return cluster.client('coming')(program, args)
      },
    })
    await leaving.create('v1', 16)
    await leaving.open('v1', 1)
    await coming.open('v1', 2)
    expect([...cluster.blocklist]).toEqual([])
    expect(cluster.images.get('v.v1')?.locker).toBe('client.coming')
  })
})

describe('an rbd image that two hosts open, one of them with a newer attachment', () => {
  // The newer one opens it while the older one waits, at each step of the older one.
  test.each([
    ['lock ls', 2],
    ['lock ls', 3],
    ['image-meta get', 2],
    ['image-meta set', 1],
  ])('is the newer one’s when it comes at %s %i of the older one', async (moment, count) => {
    await using dir = await testDir()
    const cluster = fakeCluster(join(dir.path, 'cluster'))
    const at = (host: string) => rbdPool({ ...rbdOptions(dir.path), run: cluster.client(host) })
    const [before, newer] = [at('before'), at('newer')]
    const asked = { times: 0 }
    const older = rbdPool({
      ...rbdOptions(dir.path),
      run: async (program, args) => {
        if (args.slice(0, 2).join(' ') === moment && ++asked.times === count) {
          await before.close('v1')
          await newer.open('v1', 3)
        }
        return cluster.client('older')(program, args)
      },
      patienceMs: 700,
    })
    await before.create('v1', 16)
    await before.open('v1', 1)
    await expect(older.open('v1', 2)).rejects.toThrow()
    expect(asked.times).toBeGreaterThanOrEqual(count)
    expect(cluster.images.get('v.v1')?.locker).toBe('client.newer')
    expect([...cluster.blocklist]).toEqual([])
  })
})

describe('the setting of the pools', () => {
  test('names kind and place of each', () => {
    expect(parsePools('local=dir, fast=dir:/mnt/nvme')).toEqual([
      { name: 'local', kind: 'dir', place: '' },
      { name: 'fast', kind: 'dir', place: '/mnt/nvme' },
    ])
    expect(parsePools('fast=lvm-thin:vg/pool,cluster=rbd:volumes@mote')).toEqual([
      { name: 'fast', kind: 'lvm-thin', place: 'vg/pool' },
      { name: 'cluster', kind: 'rbd', place: 'volumes@mote' },
    ])
    expect(parsePools('safe=dir-luks')).toEqual([{ name: 'safe', kind: 'dir-luks', place: '' }])
    expect(parsePools('')).toEqual([])
  })
  test.each([
    'local',
    'local=',
    'local=tape',
    'Local=dir',
    '../x=dir',
    'a=dir,a=dir:/b',
    'a=dir:',
    'a=lvm-thin:vg',
    'a=lvm-thin',
    'a=rbd',
    'a=rbd:x/y',
  ])('%j is refused', setting => {
    expect(() => parsePools(setting)).toThrow()
  })
})

test('usage can be measured while snapshots are being removed', async () => {
  await using dir = await testDir()
  const pool = dirPool('local', dir.path)
  await pool.create('v1', 16)
  const names = Array.from({ length: 40 }, (_, n) => `s${n}`)
  await mkdir(join(dir.path, 'v1.snapshots'))
  for (const name of names) await writeFile(join(dir.path, 'v1.snapshots', `${name}.raw`), name)
  const asked = Array.from({ length: 40 }, () => pool.usage('v1'))
  const removed = names.map(name => pool.removeSnapshot('v1', name))
  for (const { snapshotBytes } of await Promise.all(asked)) expect(snapshotBytes).toBeGreaterThanOrEqual(0)
  await Promise.all(removed)
  expect((await pool.usage('v1')).snapshotBytes).toBe(0)
})

async function fill(file: string, from: number, to: number): Promise<void> {
  const handle = await open(file, 'r+')
  try {
    for (let at = from; at < to; at += mib) await handle.write(Buffer.alloc(mib, `${at} `), 0, mib, at)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function write(file: string, at: number, content: string): Promise<void> {
  const handle = await open(file, 'r+')
  try {
    await handle.write(content, at)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function bytesAt(file: string, at: number, length: number): Promise<Buffer> {
  const handle = await open(file, 'r')
  try {
    return (await handle.read(Buffer.alloc(length), 0, length, at)).buffer
  } finally {
    await handle.close()
  }
}
const text = async (file: string, length: number) => (await bytesAt(file, 0, length)).toString()
const digest = async (file: string) =>
  createHash('sha256')
    .update(await readFile(file))
    .digest('hex')
const contentSize = async (file: string) => (await stat(file)).size

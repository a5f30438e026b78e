/** Every kind of volume pool to test: on this machine, or with strict fakes of the storage programs. */
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { dirPool } from '../../../src/agent/disk/dir-pool.ts'
import { lvmThinPool } from '../../../src/agent/disk/lvm-thin-pool.ts'
import type { VolumePool } from '../../../src/agent/disk/pool.ts'
import { rbdPool } from '../../../src/agent/disk/rbd-pool.ts'
import { zfsPool } from '../../../src/agent/disk/zfs-pool.ts'
import { run } from '../../../src/lib/exec.ts'
import { runsAll } from '../all-examples.ts'
import { fakeLvm } from '../fake-lvm.ts'
import { fakeCluster } from '../fake-rbd.ts'
import { type LoopFileSystem, loopFileSystem, whyNoLoop, whyNoZfs, zfsPoolInFile } from './disk.ts'

export interface Place extends AsyncDisposable {
  readonly pool: VolumePool
  /** Returns the names of everything in the pool, to detect leftovers. */
  names(): Promise<string[]>
}

/** A test of pools.test.ts that `npm test` runs with a slow kind of pool. */
export type PoolTest = 'creation' | 'snapshots' | 'shared blocks'

export interface Kind {
  readonly name: string
  /** Why this kind cannot be tested on this machine; undefined if it can. */
  readonly missing: string | undefined
  /** True if snapshots and clones share blocks with their source. */
  readonly sharesBlocks: boolean
  /** True if the usage includes newly written data only after the next snapshot, or up to half a minute later. */
  readonly countsLate?: boolean
  /** The tests that `npm test` runs with a slow kind; all if undefined. The kind dir covers the others. */
  readonly few?: readonly PoolTest[]
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
  few: ['snapshots', 'shared blocks'],
  async open(dir) {
    const place = await loopFileSystem(kind, dir, 640)
    const release = async () => place[Symbol.asyncDispose]()
    return inDirectory(dirPool('local', join(place.path, 'pool')), place.path, release)
  },
})

export const kinds: readonly Kind[] = [
  {
    name: 'dir',
    missing: undefined,
    sharesBlocks: false,
    open: async dir => inDirectory(dirPool('local', join(dir, 'pool')), dir, async () => undefined),
  },
  await onLoop('btrfs'),
  // The same code as on btrfs: both share blocks of copied files (FICLONE).
  ...(runsAll ? [await onLoop('xfs')] : []),
  {
    name: 'zfs',
    missing: await whyNoZfs(),
    sharesBlocks: true,
    countsLate: true,
    few: ['creation', 'snapshots'],
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

export function rbdOptions(dir: string) {
  return { name: 'cluster', pool: 'rbd', client: null, scratchDir: join(dir, 'scratch') }
}

/**
 * Opens a pool in a real Ceph cluster. Only the kernel's block device is replaced: images are opened as files of
 * rbd-fuse, which uses librbd.
 */
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
      // Restart rbd-fuse, because it keeps images open and locked while it runs.
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

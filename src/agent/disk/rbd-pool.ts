import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Static, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import { CommandError, run } from '../../lib/exec.ts'
import { StepError } from '../base/step-error.ts'
import { makeEmpty } from './ext4.ts'
import type { RunProgram } from './lvm-thin-pool.ts'
import { checkedId, type VolumePool } from './pool.ts'

export interface RbdOptions {
  readonly name: string
  /** The Ceph pool, and the client with access to it; null: the default client. */
  readonly pool: string
  readonly client: string | null
  /** Directory for empty file systems that are imported as images. */
  readonly scratchDir: string
  readonly run?: RunProgram
  /** How long to wait for the previous host to close an image, ms. Default 3 s. */
  readonly patienceMs?: number
}

// Output of rbd(8) with --format json, version 16.2.
const Images = Type.Array(Type.String())
const Info = Type.Object({ size: Type.Integer() })
const Snapshots = Type.Array(Type.Object({ name: Type.String() }))
const Usage = Type.Object({
  images: Type.Array(
    Type.Object({ name: Type.String(), snapshot: Type.Optional(Type.String()), used_size: Type.Integer() }),
  ),
})
const Devices = Type.Array(Type.Object({ pool: Type.String(), name: Type.String(), device: Type.String() }))
const Lock = Type.Object({ id: Type.String(), locker: Type.String() })
const Locks = Type.Array(Lock)
const Children = Type.Array(Type.Object({ pool: Type.String(), image: Type.String() }))
const Free = Type.Object({
  pools: Type.Array(Type.Object({ name: Type.String(), stats: Type.Object({ max_avail: Type.Integer() }) })),
})

const lockLookMs = 250
/** ENOENT, which rbd returns as its exit code. */
const noEntry = 2
const generationKey = 'mote.generation'
/** `exclusive-lock`: one host writes, and breaking its lock blocklists that host's client in the cluster. */
const features = 'layering,exclusive-lock,object-map,fast-diff'

/**
 * Images in a Ceph pool (RBD), which every host with that pool reaches: volumes are not pinned to a host. The
 * generation of the attachment is stored with the image; a host with a newer one breaks the lock of the previous one.
 * Images are named `v.<volume>`, their snapshots by the snapshot's id; `n.` is being created.
 */
export function rbdPool(options: RbdOptions): VolumePool {
  const { name, pool, client, scratchDir } = options
  const { run: exec = run, patienceMs = 3000 } = options
  const who = client === null ? [] : ['--id', client]
  const rbd = (...args: readonly string[]) => exec('rbd', [...who, ...args])
  const json = async <S extends TSchema>(schema: S, ...args: readonly string[]): Promise<Static<S>> =>
    Value.Parse(schema, JSON.parse(await rbd(...args, '--format', 'json')))
  const image = (volumeId: string) => `${pool}/v.${checkedId(volumeId)}`
  const making = (volumeId: string) => `${pool}/n.${checkedId(volumeId)}`
  const has = async (spec: string) => (await json(Images, 'ls', pool)).includes(spec.slice(pool.length + 1))
  const existing = async (volumeId: string): Promise<string> => {
    const spec = image(volumeId)
    if (await has(spec)) return spec
    throw new StepError('volume_missing', `pool ${name} has no volume ${volumeId}`)
  }
  const snapshotsOf = async (spec: string) => (await json(Snapshots, 'snap', 'ls', spec)).map(one => one.name)
  const needSnapshot = async (spec: string, snapshotId: string) => {
    if ((await has(spec)) && (await snapshotsOf(spec)).includes(checkedId(snapshotId))) return
    throw new StepError('snapshot_missing', `pool ${name} has no such snapshot`)
  }
  const deviceOf = async (volumeId: string) =>
    (await json(Devices, 'device', 'list')).find(one => one.pool === pool && one.name === `v.${volumeId}`)?.device
  /** Flattens the clones, so that they no longer share blocks with the image. */
  const letGoOfClones = async (spec: string) => {
    for (const child of await json(Children, 'children', '--all', spec))
      await rbd('flatten', '--no-progress', `${child.pool}/${child.image}`)
  }
  const dropImage = async (spec: string) => {
    if (!(await has(spec))) return
    await letGoOfClones(spec)
    for (const snapshot of await snapshotsOf(spec)) await rbd('snap', 'rm', '--no-progress', `${spec}@${snapshot}`)
    await rbd('rm', '--no-progress', spec)
  }
  const importNew = async (spec: string, sizeMib: number, content?: string) => {
    await mkdir(scratchDir, { recursive: true, mode: 0o700 })
    const file = join(scratchDir, spec.replace('/', '.'))
    try {
      await rm(file, { force: true })
      await makeEmpty(file, sizeMib, content)
      await rbd('import', '--no-progress', '--image-feature', features, file, spec)
    } finally {
      await rm(file, { force: true })
    }
  }
  const refuseOlder = async (spec: string, generation: number) => {
    const known = (await rbd('image-meta', 'get', spec, generationKey).catch(absent)).trim()
    if (generation < Number(known || 0))
      throw new StepError('stale_volume_generation', `the volume was attached under generation ${known} elsewhere`)
  }
  const locksOf = (spec: string) => json(Locks, 'lock', 'ls', spec)
  /**
   * Returns the locks that writers still hold after the waiting time. A writer holds its lock until it unmaps the
   * image; readers have none.
   */
  const stillLocked = async (spec: string) => {
    for (const endMs = performance.now() + patienceMs; performance.now() < endMs; await sleep(lockLookMs))
      if ((await locksOf(spec)).length === 0) return []
    return locksOf(spec)
  }
  /** Resolves once no writer with a smaller generation can write to the image any more. */
  const fence = async (spec: string, generation: number) => {
    // Listed before our generation is stored: a host that locks the image afterwards may have a newer one.
    const before = await locksOf(spec)
    await refuseOlder(spec, generation)
    await rbd('image-meta', 'set', spec, generationKey, String(generation))
    // Breaking a lock blocklists its host with all its images, so a host that is closing the image gets time.
    const late = (await stillLocked(spec)).filter(lock => before.some(one => isSame(one, lock)))
    for (const lock of late) {
      await refuseOlder(spec, generation)
      await rbd('lock', 'rm', spec, lock.id, lock.locker)
    }
  }
  const assertNobodyWrites = async (spec: string, generation: number) => {
    await refuseOlder(spec, generation)
    const [writer] = await stillLocked(spec)
    if (writer)
      throw new StepError('volume_in_use', `${writer.locker} of the cluster still has the volume open for writing`)
  }

  return {
    name,
    kind: 'rbd',
    shared: true,
    encrypted: false,
    async create(volumeId, sizeMib, from) {
      const [spec, partial] = [image(volumeId), making(volumeId)]
      if (await has(spec)) return
      await dropImage(partial)
      if (from && 'snapshotId' in from) {
        const source = image(from.volumeId)
        await needSnapshot(source, from.snapshotId)
        await rbd('clone', '--rbd-default-clone-format', '2', `${source}@${from.snapshotId}`, partial)
      } else await importNew(partial, sizeMib, from?.directory)
      await rbd('rename', partial, spec)
    },
    async open(volumeId, generation, access = 'write') {
      const spec = await existing(volumeId)
      const mapped = await deviceOf(volumeId)
      if (mapped) return mapped
      await (access === 'write' ? fence : assertNobodyWrites)(spec, generation)
      // A host with a newer attachment may have opened it meanwhile.
      await refuseOlder(spec, generation)
      return (await rbd('device', 'map', access === 'write' ? '--exclusive' : '--read-only', spec)).trim()
    },
    async close(volumeId) {
      const device = await deviceOf(checkedId(volumeId))
      if (device) await rbd('device', 'unmap', device)
    },
    async remove(volumeId) {
      await dropImage(image(volumeId))
      await dropImage(making(volumeId))
    },
    async snapshot(volumeId, snapshotId) {
      const snapshot = checkedId(snapshotId)
      const spec = await existing(volumeId)
      if (!(await snapshotsOf(spec)).includes(snapshot))
        await rbd('snap', 'create', '--no-progress', `${spec}@${snapshot}`)
    },
    async removeSnapshot(volumeId, snapshotId) {
      const spec = image(volumeId)
      if (!(await has(spec)) || !(await snapshotsOf(spec)).includes(checkedId(snapshotId))) return
      await rbd('snap', 'rm', '--no-progress', `${spec}@${snapshotId}`)
    },
    async restore(volumeId, snapshotId) {
      const spec = image(volumeId)
      await needSnapshot(spec, snapshotId)
      // Not atomic in the cluster, but no VM opens the volume before the restore is complete, and a crash repeats it.
      await rbd('snap', 'rollback', '--no-progress', `${spec}@${snapshotId}`)
    },
    async grow(volumeId, sizeMib) {
      const spec = await existing(volumeId)
      const { size } = await json(Info, 'info', spec)
      if (size < sizeMib * 2 ** 20) await rbd('resize', '--no-progress', '--size', `${sizeMib}M`, spec)
    },
    async usage(volumeId) {
      const { images } = await json(Usage, 'du', await existing(volumeId))
      const sum = (ofSnapshots: boolean) =>
        images
          .filter(one => (one.snapshot !== undefined) === ofSnapshots)
          .reduce((total, one) => total + one.used_size, 0)
      return { usedBytes: sum(false), snapshotBytes: sum(true) }
    },
    async freeBytes() {
      const { pools } = Value.Parse(Free, JSON.parse(await exec('ceph', [...who, 'df', '--format', 'json'])))
      const found = pools.find(one => one.name === pool)
      if (!found) throw new StepError('no_such_pool', `the cluster has no pool ${pool}`)
      return found.stats.max_avail
    },
  }
}

const isSame = (one: Static<typeof Lock>, other: Static<typeof Lock>) =>
  one.id === other.id && one.locker === other.locker

/** Returns an empty string if the key was never set. */
function absent(error: unknown): string {
  if (error instanceof CommandError && error.exitCode === noEntry) return ''
  throw error
}

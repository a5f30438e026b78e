import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { run } from '../../lib/exec.ts'
import { StepError } from '../base/step-error.ts'
import type { RunProgram } from './lvm-thin-pool.ts'
import { checkedId, type VolumePool } from './pool.ts'
import { assertNobodyWrites, fence, refuseOlder } from './rbd-fence.ts'
import {
  deviceOf,
  existingImage,
  hasImage,
  imageOf,
  importImage,
  needSnapshot,
  partialOf,
  type RbdImages,
  rbdJson,
  removeImage,
  snapshotsOf,
} from './rbd-images.ts'

export interface RbdOptions {
  readonly name: string
  /** Name of the pool in Ceph. `client` is the Ceph user with access to it; null: the default user. */
  readonly pool: string
  readonly client: string | null
  /** Directory for temporary file systems, which are then imported into Ceph as images. */
  readonly scratchDir: string
  readonly run?: RunProgram
  /** How long to wait for the previous host to close an image, in milliseconds. Default: 3 s. */
  readonly patienceMs?: number
}

// Output of rbd(8) and ceph(8) with --format json, version 16.2.
const Info = Type.Object({ size: Type.Integer() })
const Usage = Type.Object({
  images: Type.Array(
    Type.Object({ name: Type.String(), snapshot: Type.Optional(Type.String()), used_size: Type.Integer() }),
  ),
})
const Free = Type.Object({
  pools: Type.Array(Type.Object({ name: Type.String(), stats: Type.Object({ max_avail: Type.Integer() }) })),
})

/**
 * A pool of RBD images in Ceph, which is shared: any host with that pool can open its volumes. The generation of the
 * attachment is stored with the image, and a host with a higher generation breaks the lock of the previous host. Images
 * are named `v.<volume>`, their snapshots by the snapshot's id; `n.` marks an image that is being created.
 */
export function rbdPool(options: RbdOptions): VolumePool {
  const { name, pool, client, scratchDir } = options
  const { run: exec = run, patienceMs = 3000 } = options
  const who = client === null ? [] : ['--id', client]
  const rbd = (...args: readonly string[]) => exec('rbd', [...who, ...args])
  const images: RbdImages = { name, pool, scratchDir, rbd }

  return {
    name,
    kind: 'rbd',
    shared: true,
    encrypted: false,
    async create(volumeId, sizeMib, from) {
      const [spec, partial] = [imageOf(images, volumeId), partialOf(images, volumeId)]
      if (await hasImage(images, spec)) return
      await removeImage(images, partial)
      if (from && 'snapshotId' in from) {
        const source = imageOf(images, from.volumeId)
        await needSnapshot(images, source, from.snapshotId)
        await rbd('clone', '--rbd-default-clone-format', '2', `${source}@${from.snapshotId}`, partial)
      } else await importImage(images, partial, sizeMib, from?.directory)
      await rbd('rename', partial, spec)
    },
    async open(volumeId, generation, access = 'write') {
      const spec = await existingImage(images, volumeId)
      const mapped = await deviceOf(images, volumeId)
      if (mapped) return mapped
      await (access === 'write' ? fence : assertNobodyWrites)({ rbd, patienceMs }, spec, generation)
      // A host with a newer attachment may have opened the image meanwhile.
      await refuseOlder(images, spec, generation)
      return (await rbd('device', 'map', access === 'write' ? '--exclusive' : '--read-only', spec)).trim()
    },
    async close(volumeId) {
      const device = await deviceOf(images, checkedId(volumeId))
      if (device) await rbd('device', 'unmap', device)
    },
    async remove(volumeId) {
      await removeImage(images, imageOf(images, volumeId))
      await removeImage(images, partialOf(images, volumeId))
    },
    async snapshot(volumeId, snapshotId) {
      const snapshot = checkedId(snapshotId)
      const spec = await existingImage(images, volumeId)
      if (!(await snapshotsOf(images, spec)).includes(snapshot))
        await rbd('snap', 'create', '--no-progress', `${spec}@${snapshot}`)
    },
    async removeSnapshot(volumeId, snapshotId) {
      const spec = imageOf(images, volumeId)
      if (!(await hasImage(images, spec)) || !(await snapshotsOf(images, spec)).includes(checkedId(snapshotId))) return
      await rbd('snap', 'rm', '--no-progress', `${spec}@${snapshotId}`)
    },
    async restore(volumeId, snapshotId) {
      const spec = imageOf(images, volumeId)
      await needSnapshot(images, spec, snapshotId)
      // The rollback is not atomic in the cluster. But no VM opens the volume before the restore is complete, and the
      // agent repeats a restore that a crash interrupted.
      await rbd('snap', 'rollback', '--no-progress', `${spec}@${snapshotId}`)
    },
    async grow(volumeId, sizeMib) {
      const spec = await existingImage(images, volumeId)
      const { size } = await rbdJson(images, Info, 'info', spec)
      if (size < sizeMib * 2 ** 20) await rbd('resize', '--no-progress', '--size', `${sizeMib}M`, spec)
    },
    async usage(volumeId) {
      const { images: found } = await rbdJson(images, Usage, 'du', await existingImage(images, volumeId))
      const sum = (ofSnapshots: boolean) =>
        found
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

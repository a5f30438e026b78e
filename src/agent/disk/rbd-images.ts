/** Images in a Ceph pool and their snapshots, through rbd(8). */
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Static, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import { StepError } from '../base/step-error.ts'
import { makeEmpty } from './ext4.ts'
import { checkedId } from './pool.ts'

/** A Ceph pool, and how to run rbd(8). */
export interface RbdImages {
  /** Mote's name of the volume pool, for error messages. */
  readonly name: string
  /** Ceph's name of the pool. */
  readonly pool: string
  /** Directory for temporary file systems, which are then imported into Ceph as images. */
  readonly scratchDir: string
  /** Runs rbd(8). */
  readonly rbd: (...args: readonly string[]) => Promise<string>
}

// Output of rbd(8) with --format json, version 16.2.
const Images = Type.Array(Type.String())
const Snapshots = Type.Array(Type.Object({ name: Type.String() }))
const Devices = Type.Array(Type.Object({ pool: Type.String(), name: Type.String(), device: Type.String() }))
const Children = Type.Array(Type.Object({ pool: Type.String(), image: Type.String() }))

/**
 * Features of new images. With `exclusive-lock`, only the host that holds the image's lock can write, and breaking the
 * lock blocklists that host in the cluster.
 */
const features = 'layering,exclusive-lock,object-map,fast-diff'

/** Runs rbd(8) and parses its output. */
export async function rbdJson<S extends TSchema>(
  { rbd }: Pick<RbdImages, 'rbd'>,
  schema: S,
  ...args: readonly string[]
): Promise<Static<S>> {
  return Value.Parse(schema, JSON.parse(await rbd(...args, '--format', 'json')))
}

export const imageOf = ({ pool }: RbdImages, volumeId: string): string => `${pool}/v.${checkedId(volumeId)}`

/** Returns the name that the volume's image has until it is complete. */
export const partialOf = ({ pool }: RbdImages, volumeId: string): string => `${pool}/n.${checkedId(volumeId)}`

export async function hasImage(images: RbdImages, spec: string): Promise<boolean> {
  return (await rbdJson(images, Images, 'ls', images.pool)).includes(spec.slice(images.pool.length + 1))
}

/** Returns the name of the volume's image. @throws StepError `volume_missing` */
export async function existingImage(images: RbdImages, volumeId: string): Promise<string> {
  const spec = imageOf(images, volumeId)
  if (await hasImage(images, spec)) return spec
  throw new StepError('volume_missing', `pool ${images.name} has no volume ${volumeId}`)
}

export async function snapshotsOf(images: RbdImages, spec: string): Promise<string[]> {
  return (await rbdJson(images, Snapshots, 'snap', 'ls', spec)).map(one => one.name)
}

/** Checks that the image has the snapshot. @throws StepError `snapshot_missing` */
export async function needSnapshot(images: RbdImages, spec: string, snapshotId: string): Promise<void> {
  if ((await hasImage(images, spec)) && (await snapshotsOf(images, spec)).includes(checkedId(snapshotId))) return
  throw new StepError('snapshot_missing', `pool ${images.name} has no snapshot ${snapshotId}`)
}

/** Returns the device to which the image is mapped on this host; undefined if it is not mapped. */
export async function deviceOf(images: RbdImages, volumeId: string): Promise<string | undefined> {
  const devices = await rbdJson(images, Devices, 'device', 'list')
  return devices.find(one => one.pool === images.pool && one.name === `v.${volumeId}`)?.device
}

/** Removes the image and its snapshots. Clones of its snapshots are not affected. Idempotent. */
export async function removeImage(images: RbdImages, spec: string): Promise<void> {
  const { rbd } = images
  if (!(await hasImage(images, spec))) return
  await flattenClones(images, spec)
  for (const snapshot of await snapshotsOf(images, spec))
    await rbd('snap', 'rm', '--no-progress', `${spec}@${snapshot}`)
  await rbd('rm', '--no-progress', spec)
}

/** Creates the image with an ext4 file system that is empty or has the content of a directory. */
export async function importImage(
  { rbd, scratchDir }: RbdImages,
  spec: string,
  sizeMib: number,
  content?: string,
): Promise<void> {
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

/** Copies into each clone the blocks that it shares with the image, so that the image can be removed. */
async function flattenClones(images: RbdImages, spec: string): Promise<void> {
  for (const child of await rbdJson(images, Children, 'children', '--all', spec))
    await images.rbd('flatten', '--no-progress', `${child.pool}/${child.image}`)
}

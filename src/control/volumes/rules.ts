import { ApiError, invalidField, invalidState } from '../http/errors.ts'
import { type PoolView, fitVolumes, type VolumeNeed } from '../scheduler/pools.ts'
import type { AttachApp, Attachment } from './attach-store.ts'
import type { Volume } from './store.ts'
import type { VolumeSnapshot } from './snapshot-store.ts'

/** What the guest's own files need: hidden under a volume, nothing would start. */
const systemTrees = [
  '/bin',
  '/boot',
  '/dev',
  '/etc',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/mote',
  '/proc',
  '/run',
].concat(['/sbin', '/sys', '/usr/bin', '/usr/lib', '/usr/lib64', '/usr/libexec', '/usr/sbin'])
/** Only these themselves; below them there is room for data. */
const systemRoots = ['/', '/home', '/opt', '/root', '/srv', '/tmp', '/usr', '/usr/local', '/usr/share', '/var'].concat([
  '/var/cache',
  '/var/lib',
  '/var/log',
  '/var/run',
  '/var/tmp',
])
const lengthLimit = 200

const isWithin = (path: string, tree: string) => path === tree || path.startsWith(`${tree}/`)

/**
 * A mount point as it may be used: absolute, normalised, not a path of the system.
 * @throws ApiError 400 naming the field
 */
export function checkMountPoint(path: string, field = 'mount_point'): string {
  if (!path.startsWith('/')) throw invalidField(field, 'must be absolute, for example /data')
  if (path.length > lengthLimit) throw invalidField(field, `must have at most ${lengthLimit} characters`)
  const parts = path.split('/').slice(1)
  if (path !== '/' && parts.some(part => part === '' || part === '.' || part === '..'))
    throw invalidField(field, 'must be normalised: no empty parts, no "." and no ".."')
  if (path !== '/' && !parts.every(part => /^[A-Za-z0-9._@+-]+$/.test(part)))
    throw invalidField(field, 'may have letters, digits, ".", "_", "@", "+" and "-" between the slashes')
  if (systemRoots.includes(path) || systemTrees.some(tree => isWithin(path, tree)))
    throw invalidField(field, `${path} belongs to the system; use a directory of your own, for example /data`)
  return path
}

/** Volumes are found by the name of their file: more than this no pool of one host holds. */
export const largestMib = 64 * 1024 * 1024
const smallestMib = 16

/** @throws ApiError 400. An ext4 with less than 16 MiB has no room for a journal. */
export function checkSize(sizeMib: number, field = 'size_mib'): number {
  if (sizeMib < smallestMib || sizeMib > largestMib)
    throw invalidField(field, `must be from ${smallestMib} to ${largestMib}`)
  return sizeMib
}

/** @throws ApiError 400 for what cannot be the name of a pool */
export function checkPoolName(name: string): string {
  if (name !== '' && !/^[a-z0-9][a-z0-9_-]{0,31}$/.test(name))
    throw invalidField('pool_name', 'is the short plain name of a storage pool, or left out')
  return name
}

const inUse = (message: string) => new ApiError('volume_in_use', message)
export const underWay = (message: string) => new ApiError('operation_in_progress', message)

export interface AttachRequest {
  readonly mountPoint: string
  readonly accessMode: 0 | 1
}

/**
 * Whether the volume may be attached so, beside what is there.
 * @param ofVolume where it is attached now
 * @param ofApp what the app has now
 * @throws ApiError 400, 409 `volume_in_use`, `operation_in_progress`, `invalid_state`
 */
export function assertAttachable(
  volume: Pick<Volume, 'name' | 'state'>,
  app: AttachApp,
  desired: AttachRequest,
  ofVolume: readonly Attachment[],
  ofApp: readonly Attachment[],
): void {
  if (volume.state === 'restoring') throw underWay(`Volume ${volume.name} is being restored. Wait until that is done.`)
  if (volume.state === 'failed') throw invalidState(`Volume ${volume.name} could not be made; see its message.`)
  const here = ofVolume.find(one => one.appId === app.id)
  if (here)
    throw inUse(
      here.want === 'detached'
        ? `Volume ${volume.name} is still being detached from this app. Wait until a VM has let go of it.`
        : `Volume ${volume.name} is attached to this app already, at ${here.mountPoint}.`,
    )
  const writer = ofVolume.find(one => one.accessMode === 0)
  if (writer) throw inUse(`Volume ${volume.name} is attached read-write to ${writer.appName}. Detach it there first.`)
  const reader = ofVolume[0]
  if (reader && desired.accessMode === 0)
    throw inUse(
      `Volume ${volume.name} is attached read-only to ${reader.appName}. Detach it there, or attach it read-only.`,
    )
  const nested = ofApp.find(
    one => isWithin(one.mountPoint, desired.mountPoint) || isWithin(desired.mountPoint, one.mountPoint),
  )
  if (nested)
    throw new ApiError(
      'volume_in_use',
      `Another volume of this app is at ${nested.mountPoint}. Choose another mount point.`,
    )
  if (desired.accessMode === 0 && app.maxReplicas > 1) throw invalidState(oneReplica(volume.name, app.name))
}

const oneReplica = (volume: string, app: string) =>
  `Volume ${volume} can be written by one VM only, and ${app} may have several. Scale it to one first ` +
  `(desired_replicas 1, max_replicas 1), or attach the volume read-only (access_mode 1).`

/** @throws ApiError 409: the app has a volume that only one VM may have */
export function assertScalable(maxReplicas: number, writer: string | undefined): void {
  if (writer === undefined || maxReplicas <= 1) return
  throw invalidState(`The app has volume ${writer} read-write, which only one VM can have: max_replicas must be 1.`)
}

/** @throws ApiError 409 when it is attached */
export function assertFree(volume: Pick<Volume, 'name'>, attachments: readonly Attachment[], verb: string): void {
  const [first] = attachments
  if (first) throw inUse(`Volume ${volume.name} is attached to ${first.appName}. Detach it before you ${verb} it.`)
}

/** @throws ApiError 409 while a VM has it, or is about to. Attached to what does not run, it is free */
export function assertNotHeld(volume: Pick<Volume, 'name'>, attachments: readonly Attachment[]): void {
  const holder = attachments.find(one => one.vms > 0)
  if (holder)
    throw inUse(
      `A VM of ${holder.appName} has volume ${volume.name}. Stop the deployment, or detach the volume, before you restore it.`,
    )
}

/** @throws ApiError 409 while it is on its way to another host */
export function assertAtRest({ name, movingTo }: Pick<Volume, 'name' | 'movingTo'>): void {
  if (movingTo !== null) throw underWay(`Volume ${name} is being moved to another host. Wait until that is done.`)
}

/** @throws ApiError 409 when there is nothing to start from yet */
export function assertSnapshotReady(snapshot: Pick<VolumeSnapshot, 'name' | 'state' | 'error'>): void {
  if (snapshot.state === 'ready') return
  if (snapshot.state === 'creating') throw underWay(`Snapshot ${snapshot.name} is being made. Wait until it is ready.`)
  throw invalidState(`Snapshot ${snapshot.name} has failed${snapshot.error ? `: ${snapshot.error}` : ''}.`)
}

/** Where a volume goes that no VM takes along: the host with most room that is up. */
export function choosePlace(
  pools: readonly PoolView[],
  hosts: readonly { readonly id: string; readonly up: boolean; readonly cordoned: boolean }[],
  volume: VolumeNeed,
): PoolView | undefined {
  const fits = hosts
    .filter(host => host.up && !host.cordoned)
    .flatMap(host => fitVolumes(pools, host.id, [volume])?.get(volume.volumeId) ?? [])
  return fits.toSorted((a, b) => b.roomMib - a.roomMib || (a.hostId < b.hostId ? -1 : 1))[0]
}

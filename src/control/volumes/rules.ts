import { mountPointFault } from '../../lib/mount-point.ts'
import { ApiError, invalidField, invalidState } from '../http/errors.ts'
import { type PoolView, fitVolumes, type VolumeNeed } from '../scheduler/pools.ts'
import type { AttachApp, Attachment } from './attach-store.ts'
import type { Volume } from './store.ts'
import type { VolumeSnapshot } from './snapshot-store.ts'

const isWithin = (path: string, tree: string) => path === tree || path.startsWith(`${tree}/`)

/**
 * Returns the mount point if it is valid: absolute, normalized, and not a system directory.
 * @throws ApiError 400 with the name of the field
 */
export function checkMountPoint(path: string, field = 'mount_point'): string {
  const fault = mountPointFault(path)
  if (fault !== undefined) throw invalidField(field, fault)
  return path
}

/** Maximum volume size: no pool of a single host holds more. */
export const largestMib = 64 * 1024 * 1024
const smallestMib = 16

/**
 * Checks the size of a volume. The minimum is 16 MiB, because a smaller ext4 file system has no room for a journal.
 * @throws ApiError 400
 */
export function checkSize(sizeMib: number, field = 'size_mib'): number {
  if (sizeMib < smallestMib || sizeMib > largestMib)
    throw invalidField(field, `must be from ${smallestMib} to ${largestMib}`)
  return sizeMib
}

/** Returns the name of the requested storage pool if it is valid or empty. @throws ApiError 400 */
export function checkPoolName(name: string): string {
  if (name !== '' && !/^[a-z0-9][a-z0-9_-]{0,31}$/.test(name))
    throw invalidField('pool_name', 'must be the short name of a storage pool, or be left out')
  return name
}

const inUse = (message: string) => new ApiError('volume_in_use', message)
export const underWay = (message: string) => new ApiError('operation_in_progress', message)

export interface AttachRequest {
  readonly mountPoint: string
  readonly accessMode: 0 | 1
}

/**
 * Checks that the volume may be attached to the app, given the existing attachments of both.
 * @param ofVolume current attachments of the volume
 * @param ofApp current attachments of the app
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
  if (volume.state === 'failed') throw invalidState(`Volume ${volume.name} could not be created; see its message.`)
  const here = ofVolume.find(one => one.appId === app.id)
  if (here)
    throw inUse(
      here.want === 'detached'
        ? `Volume ${volume.name} is still being detached from this app. Wait until its VM has released it.`
        : `Volume ${volume.name} is already attached to this app, at ${here.mountPoint}.`,
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
      `Another volume of this app is mounted at ${nested.mountPoint}. Choose another mount point.`,
    )
  if (desired.accessMode === 0 && app.maxReplicas > 1) throw invalidState(oneReplica(volume.name, app.name))
}

const oneReplica = (volume: string, app: string) =>
  `Only one VM can write to volume ${volume}, and ${app} may have several. Scale it to one first ` +
  `(desired_replicas 1, max_replicas 1), or attach the volume read-only (access_mode 1).`

/**
 * Checks the requested maximum number of replicas of an app.
 * @throws ApiError 409 if the app has a read-write volume, which only one VM can attach
 */
export function assertScalable(maxReplicas: number, writer: string | undefined): void {
  if (writer === undefined || maxReplicas <= 1) return
  throw invalidState(
    `The app has the read-write volume ${writer}, which only one VM can attach: max_replicas must be 1.`,
  )
}

/** Checks that the volume is not attached to an app. @throws ApiError 409 */
export function assertFree(volume: Pick<Volume, 'name'>, attachments: readonly Attachment[], verb: string): void {
  const [first] = attachments
  if (first) throw inUse(`Volume ${volume.name} is attached to ${first.appName}. Detach it before you ${verb} it.`)
}

/**
 * Checks that no VM has the volume attached or is about to attach it. The volume may be attached to an app that has no
 * VMs.
 * @throws ApiError 409
 */
export function assertNotHeld(volume: Pick<Volume, 'name'>, attachments: readonly Attachment[]): void {
  const holder = attachments.find(one => one.vms > 0)
  if (holder)
    throw inUse(
      `Volume ${volume.name} is in use by a VM of ${holder.appName}. Stop the deployment, or detach the volume, before you restore it.`,
    )
}

/** Checks that the volume is not moving to another host. @throws ApiError 409 */
export function assertAtRest({ name, movingTo }: Pick<Volume, 'name' | 'movingTo'>): void {
  if (movingTo !== null) throw underWay(`Volume ${name} is being moved to another host. Wait until that is done.`)
}

/** Checks that the volume snapshot is ready. @throws ApiError 409 */
export function assertSnapshotReady(snapshot: Pick<VolumeSnapshot, 'name' | 'state' | 'error'>): void {
  if (snapshot.state === 'ready') return
  if (snapshot.state === 'creating') throw underWay(`Snapshot ${snapshot.name} is being taken. Wait until it is ready.`)
  throw invalidState(`Snapshot ${snapshot.name} has failed${snapshot.error ? `: ${snapshot.error}` : ''}.`)
}

/** Chooses host and pool for a volume without a VM: the pool with the most room on a host that is up. */
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

/**
 * Attaches and detaches volumes, to an app or to a single deployment. Both kinds of attachment lock the volume's row,
 * which guarantees that a volume has at most one writer.
 */
import { uniqueViolation } from '../../db/errors.ts'
import type { Tx } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import { ApiError, notFound } from '../http/errors.ts'
import { unclaim } from '../vms/index.ts'
import type { Attachment } from './attach-store.ts'
import * as attachments from './attach-store.ts'
import * as rules from './rules.ts'
import * as store from './store.ts'
import type { Volume } from './store.ts'

export interface AttachRequest {
  readonly projectId: string
  readonly volumeId: string
  readonly appId: string
  /**
   * Deployment to whose VMs alone the volume is attached, until the deployment is deleted. Undefined: all VMs of the
   * app.
   */
  readonly deploymentId?: string
  readonly mountPoint: string
  readonly accessMode: 0 | 1
  /** `user`: both the app and the volume must belong to the user, not to the platform. */
  readonly by: 'user' | 'platform'
}

export interface Attached {
  readonly volume: Volume
  readonly attachment: Attachment
}

/**
 * Attaches the volume to the app; its VMs mount it from their next start.
 * @throws ApiError 400 (mount point), 404, 409 `volume_in_use`, `operation_in_progress`, `invalid_state`
 */
export async function attachVolume(tx: Tx, request: AttachRequest): Promise<Attached> {
  const mountPoint = rules.checkMountPoint(request.mountPoint)
  const app = await attachments.lockApp(tx, request.projectId, request.appId, request.by === 'user' ? 'user' : null)
  const volume = await store.lock(tx, request.volumeId)
  if (!app || volume?.projectId !== request.projectId) throw notFound()
  if (request.by === 'user' && volume.owner !== 'user') throw notFound()
  rules.assertAtRest(volume)
  const { accessMode } = request
  const there = await attachments.attachmentsOf(tx, volume.id)
  rules.assertAttachable(volume, app, { mountPoint, accessMode }, there, await attachments.attachmentsOfApp(tx, app.id))
  const id = newId()
  const deploymentId = request.deploymentId ?? null
  try {
    await attachments.insert(tx, { ...request, id, mountPoint, deploymentId })
    if (deploymentId === null) await attachments.settingsChanged(tx, app.id)
  } catch (cause) {
    if (uniqueViolation(cause))
      throw new ApiError(
        'volume_in_use',
        `Volume ${volume.name} was attached by another request at the same time. Check the attachments of the volume and the app, then try again.`,
      )
    throw cause
  }
  const attachment = (await attachments.attachmentsOf(tx, volume.id)).find(one => one.id === id)
  if (!attachment) throw new Error('BUG: an attachment that was just inserted does not exist')
  return { volume, attachment }
}

/** Explains to users how a volume that a VM uses is detached; null if no VM uses the volume. */
export const detachMessage = (status: 'detached' | 'detaching', mountPoint: string): string | null =>
  status === 'detached'
    ? null
    : `The VM unmounts ${mountPoint} first. While a program in the VM has a file open there, the volume stays attached and the host retries; ` +
      'GET /v1/apps/{app_id}/volumes says what prevents it. The volume is free at the latest when the VM stops.'

/**
 * Detaches a volume. Returns `detaching` if a VM uses the volume: its guest must first unmount the volume, which it
 * cannot do as long as a program has files open on it.
 */
export async function detachVolume(
  tx: Tx,
  { id, volumeId }: Pick<Attachment, 'id' | 'volumeId'>,
): Promise<'detached' | 'detaching'> {
  const volume = await store.lock(tx, volumeId)
  const now = (await attachments.attachmentsOf(tx, volumeId)).find(one => one.id === id)
  if (!now) return 'detached'
  if (now.vms === 0) {
    await attachments.remove(tx, id)
    return 'detached'
  }
  // Refuse to detach a volume that is moving to another host: it is moving together with the VM that uses it.
  if (volume) rules.assertAtRest(volume)
  await attachments.markForDeletion(tx, id)
  await unclaim(tx, id)
  return 'detaching'
}

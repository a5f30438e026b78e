/** Who has a volume. Apps and single deployments attach through the same lock: the volume's row and its one writer. */
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
  /** Only this deployment of the app has it, and only as long as that lives. */
  readonly deploymentId?: string
  readonly mountPoint: string
  readonly accessMode: 0 | 1
  /** `user`: neither the app nor the volume may be made for somebody else. */
  readonly by: 'user' | 'platform'
}

export interface Attached {
  readonly volume: Volume
  readonly attachment: Attachment
}

/**
 * The app's VMs have the volume from their next start.
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
  } catch (cause) {
    if (uniqueViolation(cause)) throw new ApiError('volume_in_use', `Volume ${volume.name} was attached meanwhile.`)
    throw cause
  }
  const attachment = (await attachments.attachmentsOf(tx, volume.id)).find(one => one.id === id)
  if (!attachment) throw new Error('BUG: an attachment that was just made is not there')
  return { volume, attachment }
}

/** What becomes of a volume that a VM still has; null: nobody has it any more. */
export const detachMessage = (status: 'detached' | 'detaching', mountPoint: string): string | null =>
  status === 'detached'
    ? null
    : `The VM unmounts ${mountPoint} first. While a program in the VM has a file there open, the volume stays attached and is tried again; ` +
      'GET /v1/apps/{app_id}/volumes names what keeps it. It is free at the latest when the VM stops.'

/** `detaching`: a VM has it still; it is unmounted there first, and stays while something in the guest uses it. */
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
  // The VM that has it takes it along.
  if (volume) rules.assertAtRest(volume)
  await attachments.markForDeletion(tx, id)
  await unclaim(tx, id)
  return 'detaching'
}

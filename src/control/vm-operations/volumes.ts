import type { Tx } from '../../db/db.ts'
import { isUuid } from '../../lib/ids.ts'
import type { Deps } from '../base/deps.ts'
import { invalidField, invalidState, notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { type Attachment, attachmentsOfApp, attachVolume, detachMessage, detachVolume } from '../volumes/index.ts'
import { type ClaimObstacle, claimRunning, type vmOperations } from '../vms/index.ts'
import type { DetachRuntimeVolumeRequest } from '../vms/schema.ts'
import { lockedJob, placedVm, requireCapability } from './job.ts'

type VolumeOperations = Pick<typeof vmOperations, 'attachRuntimeVolume' | 'detachRuntimeVolume'>

export const volumeHandlers = (deps: Pick<Deps, 'db' | 'config'>): Handlers<VolumeOperations> => ({
  attachRuntimeVolume: {
    write: async call => async tx => {
      const d = await lockedJob(tx, call)
      const placed = await placedVm(deps, tx, d)
      requireCapability(placed, 'hotplugDisk')
      const { volume_id: volumeId, mount_point: mountPoint, read_only: readOnly = false } = call.body
      if (!isUuid(volumeId)) throw invalidField('volume_id', 'must be the id of a volume; see GET /v1/volumes')
      const { volume, attachment } = await attachVolume(tx, {
        projectId: d.projectId,
        appId: d.appId,
        deploymentId: d.id,
        volumeId,
        mountPoint,
        accessMode: readOnly ? 1 : 0,
        by: 'user',
      })
      for (const vm of d.vms) {
        if (vm.want === 'absent' || vm.hostId === null) continue
        const obstacle = await claimRunning(tx, vm.id, vm.hostId, volume.id)
        if (obstacle) throw invalidState(obstacles[obstacle](volume.name))
      }
      const details = { name: volume.name, mount_point: mountPoint, read_only: readOnly }
      call.audit({ action: 'volume.attach_runtime', resourceType: 'deployment', resourceId: d.id, details })
      return { status: 'attaching', volume_id: volume.id, mount_point: attachment.mountPoint, read_only: readOnly }
    },
  },

  detachRuntimeVolume: {
    write: async call => async tx => {
      const d = await lockedJob(tx, call)
      const attachment = await named(tx, d, call.body)
      const status = await detachVolume(tx, attachment)
      const { volumeId, mountPoint } = attachment
      const details = { volume_id: volumeId, mount_point: mountPoint }
      call.audit({ action: 'volume.detach_runtime', resourceType: 'deployment', resourceId: d.id, details })
      return { status, message: detachMessage(status, mountPoint), volume_id: volumeId, mount_point: mountPoint }
    },
  },
})

/** Messages for users: why the VM cannot attach the volume, and what to do about it. */
const obstacles = {
  elsewhere: volume =>
    `Volume ${volume} is on another host than the VM. Move the volume there, or attach it to the app: its next VM starts where the volume is.`,
  'no pool': volume => `The host of the VM has no storage pool of the kind that stores volume ${volume}.`,
  'no room': volume => `The storage pools on the VM's host have no room for volume ${volume}.`,
  moving: volume => `The VM is being moved to another host. Attach volume ${volume} when that is done.`,
  gone: volume => `Volume ${volume} was detached or the VM ended in the meantime.`,
} as const satisfies Record<ClaimObstacle, (volume: string) => string>

/**
 * Finds the attachment that the request names. @throws ApiError 400 when the request names nothing, 404 when the
 * deployment has no such volume, 409 when the volume belongs to the app
 */
async function named(
  tx: Tx,
  d: { readonly id: string; readonly appId: string },
  given: DetachRuntimeVolumeRequest,
): Promise<Attachment> {
  if (!given.volume_id && !given.mount_point)
    throw invalidField('volume_id', 'give volume_id, or mount_point, as a JSON object')
  const found = (await attachmentsOfApp(tx, d.appId)).find(
    one =>
      (!given.volume_id || one.volumeId === given.volume_id) &&
      (!given.mount_point || one.mountPoint === given.mount_point) &&
      (one.deploymentId === null || one.deploymentId === d.id),
  )
  if (!found) throw notFound()
  if (found.deploymentId === null)
    throw invalidState(
      `The volume at ${found.mountPoint} belongs to the app: DELETE /v1/apps/{app_id}/volumes/{volume_id}/detach`,
    )
  return found
}

import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, fileName, int32, list, maybe, resource, text, uuid } from '../http/types.ts'
import { attachOperations } from './attach-schema.ts'
import {
  AttachedVolume,
  Volume,
  VolumeMoveStatus,
  VolumeSchedule,
  VolumeSnapshot,
  VolumeUsage,
  VolumeWithAttachments,
} from './resources.ts'

export { AttachedVolume, Volume, VolumeSnapshot, VolumeUsage, VolumeWithAttachments }

const shared = { tag: 'Volumes', auth: 'bearer', project: 'selected' } as const
const volumeId = () => uuid({ description: 'Id of the volume.' })
const params = Type.Object({ volume_id: volumeId() })
const ofSnapshot = Type.Object({ snapshot_id: uuid({ description: 'Id of the snapshot.' }) })
const snapshotName = () =>
  text({
    minLength: 1,
    maxLength: 100,
    description: 'Name of a snapshot of this volume.',
    examples: ['before-upgrade'],
  })
const sizeMib = (description: string) => int32({ minimum: 1, description, examples: [10_240] })
const volumeName = () => fileName({ description: 'Name of the volume; unique in the project.', examples: ['data'] })

const ownOperations = operations({
  listVolumes: {
    method: 'GET',
    path: '/v1/volumes',
    summary: 'List the volumes of a project',
    description: 'Returns all volumes of the project with the apps that they are attached to, newest first.',
    ...shared,
    scope: 'read',
    list: { order: ['-id'], filters: ['name', 'status'] },
    answer: list(VolumeWithAttachments),
    items: [
      {
        id: 'getVolume',
        path: '/v1/volumes/{volume_id}',
        by: 'id',
        summary: 'Get a volume',
        description: 'Returns one volume with the apps that it is attached to.',
        waits: 'status',
      },
    ],
  },
  createVolume: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/volumes',
    summary: 'Create a volume',
    description:
      'Creates an empty volume with an ext4 file system. The volume is placed on a host when a VM first uses it.',
    ...shared,
    scope: 'write',
    body: resource('CreateVolumeRequest', {
      name: volumeName(),
      size_mib: sizeMib('Size in MiB. The volume can grow later, but never shrinks.'),
      pool_name: maybe(
        text({
          maxLength: 63,
          description: 'Kind of storage pool to use. Default: the preferred pool of the host.',
          examples: ['nvme'],
        }),
      ),
    }),
    answer: Volume,
  },
  updateVolume: {
    addition: true,
    method: 'PATCH',
    path: '/v1/volumes/{volume_id}',
    summary: 'Grow a volume',
    description:
      'Makes a volume larger, even while a VM uses it: the file system grows with it. A volume never shrinks.',
    ...shared,
    scope: 'write',
    params,
    body: resource('UpdateVolumeRequest', {
      size_mib: sizeMib('New size in MiB, at least the current size: a volume never shrinks.'),
    }),
    fails: [409],
    answer: Volume,
  },
  moveVolume: {
    addition: true,
    method: 'POST',
    path: '/v1/volumes/{volume_id}/move',
    summary: 'Move a volume to another host',
    description:
      'Starts copying a detached volume, with its snapshots, to another host. Follow the move with `GET .../move`. The volume cannot be used until the move has ended.',
    ...shared,
    scope: 'admin',
    params,
    body: resource('MoveVolumeRequest', {
      target_host: text({
        minLength: 1,
        maxLength: 255,
        description: 'Id or name of the host to move to.',
        examples: ['host-b'],
      }),
    }),
    answer: VolumeMoveStatus,
  },
  getVolumeMove: {
    addition: true,
    method: 'GET',
    path: '/v1/volumes/{volume_id}/move',
    summary: 'Get the move of a volume',
    description:
      'Returns the progress of the most recent move of the volume, and whether it can be moved now. `status` is `none` if the volume has never been moved.',
    ...shared,
    scope: 'read',
    params,
    answer: VolumeMoveStatus,
  },
  cancelVolumeMove: {
    addition: true,
    method: 'POST',
    path: '/v1/volumes/{volume_id}/move/cancel',
    summary: 'Cancel the move of a volume',
    description:
      'Cancels a move that is still running; the volume stays on its host. If the volume moves together with its VM, cancel the migration of the VM instead.',
    ...shared,
    scope: 'admin',
    params,
    answer: VolumeMoveStatus,
  },
  deleteVolume: {
    method: 'DELETE',
    path: '/v1/volumes/{volume_id}',
    summary: 'Delete a volume',
    description: 'Deletes a detached volume with its snapshots. This cannot be undone.',
    ...shared,
    scope: 'write',
    params,
    fails: [409],
    answer: acknowledgement('deleting'),
  },
  getVolumeUsage: {
    method: 'GET',
    path: '/v1/volumes/{volume_id}/usage',
    summary: 'Get the usage of a volume',
    description: 'Returns the size and usage of the volume, as last measured by its host.',
    ...shared,
    scope: 'read',
    params,
    answer: VolumeUsage,
  },
  listVolumeSnapshots: {
    method: 'GET',
    path: '/v1/volumes/{volume_id}/snapshots',
    summary: 'List the snapshots of a volume',
    description: 'Returns the snapshots of one volume, newest first, including scheduled ones.',
    ...shared,
    scope: 'read',
    params,
    list: { order: ['-id'], filters: ['name', 'status'] },
    answer: list(VolumeSnapshot),
  },
  createVolumeSnapshot: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/volumes/{volume_id}/snapshots',
    summary: 'Take a snapshot of a volume',
    description:
      'Takes a crash-consistent snapshot, which contains all data that programs have synced to the volume. The response is sent before the snapshot is taken: wait for `ready`.',
    ...shared,
    scope: 'write',
    params,
    body: resource('CreateVolumeSnapshotRequest', {
      name: fileName({ description: 'Name of the snapshot; unique for the volume.' }),
    }),
    answer: VolumeSnapshot,
  },
  restoreVolume: {
    method: 'POST',
    path: '/v1/volumes/{volume_id}/restore',
    summary: 'Restore a volume from a snapshot',
    description:
      'Restores the content of the volume from the snapshot; later writes are lost. The volume may be attached to an app, but not to a running VM.',
    ...shared,
    scope: 'write',
    params,
    body: resource('RestoreVolumeRequest', { snapshot_name: snapshotName() }),
    answer: Volume,
  },
  cloneVolume: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/volumes/{volume_id}/clone',
    summary: 'Clone a volume from a snapshot',
    description:
      'Creates a new volume with the content of the snapshot, on the same host. Blocks are shared until they change, so the clone takes little space at first.',
    ...shared,
    scope: 'write',
    params,
    body: resource('CloneVolumeRequest', {
      name: fileName({ description: 'Name of the new volume; unique in the project.', examples: ['data-copy'] }),
      snapshot_name: snapshotName(),
    }),
    answer: Volume,
  },
  getVolumeSchedule: {
    method: 'GET',
    path: '/v1/volumes/{volume_id}/schedule',
    summary: 'Get the snapshot schedule of a volume',
    description: 'Returns how often snapshots of the volume are taken, and how many are retained.',
    ...shared,
    scope: 'read',
    params,
    answer: VolumeSchedule,
    addition: true,
  },
  setVolumeSchedule: {
    method: 'PUT',
    path: '/v1/volumes/{volume_id}/schedule',
    summary: 'Set the snapshot schedule of a volume',
    description:
      'Replaces the snapshot schedule. The oldest scheduled snapshots are deleted when more than `keep` exist; other snapshots are not deleted.',
    ...shared,
    scope: 'write',
    params,
    body: VolumeSchedule,
    answer: VolumeSchedule,
    addition: true,
  },
  getVolumeSnapshot: {
    method: 'GET',
    path: '/v1/snapshots/{snapshot_id}',
    summary: 'Get a snapshot of a volume',
    description: 'Returns one snapshot. With `wait=ready,failed` the response is delayed until the snapshot is taken.',
    ...shared,
    scope: 'read',
    params: ofSnapshot,
    answer: VolumeSnapshot,
    waits: 'status',
    addition: true,
  },
  deleteVolumeSnapshot: {
    method: 'DELETE',
    path: '/v1/snapshots/{snapshot_id}',
    summary: 'Delete a snapshot of a volume',
    description: 'Deletes the snapshot; its volume and volumes cloned from it stay unchanged.',
    ...shared,
    scope: 'write',
    params: ofSnapshot,
    fails: [409],
    answer: acknowledgement('deleting'),
  },
})

export const volumeOperations = { ...ownOperations, ...attachOperations }

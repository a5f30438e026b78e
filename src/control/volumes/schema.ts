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
const volumeId = () => uuid({ description: 'The volume.' })
const params = Type.Object({ volume_id: volumeId() })
const ofSnapshot = Type.Object({ snapshot_id: uuid({ description: 'The snapshot.' }) })
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
    description: 'Answers every volume of the project with the apps that have it, newest first.',
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
        description: 'Answers one volume with the apps that have it.',
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
      'Creates an empty volume with an ext4 file system. It gets its place on a host when a VM first uses it.',
    ...shared,
    scope: 'write',
    body: resource('CreateVolumeRequest', {
      name: volumeName(),
      size_mib: sizeMib('Size in MiB. It can grow later, and never shrinks.'),
      pool_name: maybe(
        text({
          maxLength: 63,
          description: 'Kind of storage pool that it is to be in. Default: the one that its host prefers.',
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
      'Makes a volume larger, also while a VM has it: the file system grows with it. A volume never shrinks.',
    ...shared,
    scope: 'write',
    params,
    body: resource('UpdateVolumeRequest', {
      size_mib: sizeMib('New size in MiB, at least what it has: a volume never shrinks.'),
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
      'Begins to copy a volume that no VM has, with its snapshots, to another host. Follow it with `GET .../move`; the volume cannot be used meanwhile.',
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
      'Answers how far the newest move of the volume is, and what keeps it from being moved now. `status` is `none` when it never moved.',
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
      'Ends a move that is not over; the volume stays where it was. A volume that moves with its VM is cancelled with the migration of the VM.',
    ...shared,
    scope: 'admin',
    params,
    answer: VolumeMoveStatus,
  },
  deleteVolume: {
    method: 'DELETE',
    path: '/v1/volumes/{volume_id}',
    summary: 'Delete a volume',
    description: 'Deletes a volume that no app has, with its snapshots. It cannot be undone.',
    ...shared,
    scope: 'write',
    params,
    fails: [409],
    answer: acknowledgement('deleting'),
  },
  getVolumeUsage: {
    method: 'GET',
    path: '/v1/volumes/{volume_id}/usage',
    summary: 'Get how much of a volume is used',
    description: 'Answers what the host of the volume measured last.',
    ...shared,
    scope: 'read',
    params,
    answer: VolumeUsage,
  },
  listVolumeSnapshots: {
    method: 'GET',
    path: '/v1/volumes/{volume_id}/snapshots',
    summary: 'List the snapshots of a volume',
    description: 'Answers the snapshots of one volume, newest first, with those that its schedule took.',
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
      'Takes a crash-consistent snapshot: what programs have synced is in it. The answer comes before it is taken: wait for `ready`.',
    ...shared,
    scope: 'write',
    params,
    body: resource('CreateVolumeSnapshotRequest', {
      name: fileName({ description: 'Name of the snapshot; unique for its volume.' }),
    }),
    answer: VolumeSnapshot,
  },
  restoreVolume: {
    method: 'POST',
    path: '/v1/volumes/{volume_id}/restore',
    summary: 'Restore a volume from a snapshot',
    description:
      'Puts the content of the volume back to the snapshot; what was written since is lost. It may stay attached, but no VM may run with it.',
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
      'Creates a new volume with the content of the snapshot, on the same host. Blocks are shared until they change, so it takes little room at first.',
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
    description: 'Answers how often snapshots of the volume are taken, and how many are kept.',
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
      'Replaces the schedule. Snapshots that a schedule took are deleted when more than `keep` exist; those that you took are not.',
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
    description: 'Answers one snapshot. With `wait=ready,failed` it answers once the snapshot is taken.',
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
    description: 'Removes the snapshot; its volume and volumes cloned from it stay as they are.',
    ...shared,
    scope: 'write',
    params: ofSnapshot,
    fails: [409],
    answer: acknowledgement('deleting'),
  },
})

export const volumeOperations = { ...ownOperations, ...attachOperations }

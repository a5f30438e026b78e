import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import {
  Acknowledgement,
  dateTime,
  double,
  fileName,
  int32,
  int64,
  list,
  maybe,
  nullable,
  resource,
  text,
  uuid,
} from '../http/types.ts'

const volume = {
  id: uuid(),
  tenant_id: uuid(),
  name: text(),
  size_mib: int32(),
  pool_name: text({ default: '' }),
  created_at: dateTime(),
  updated_at: dateTime(),
}
const accessMode = (options = {}) =>
  int32({ minimum: 0, maximum: 1, description: '0 read-write, one VM at a time; 1 read-only, many VMs.', ...options })

/** What we add: every volume says how it is. */
const state = {
  status: Type.Optional(
    text({
      description:
        '`pending` (gets its place when it is first used), `creating`, `ready`, `growing`, `restoring`, `moving`, `failed`; as attached to an app: `waiting` (for the next start of a VM), `attaching`, `attached`, `detaching`',
    }),
  ),
  message: Type.Optional(nullable(text({ description: 'What went wrong last, if anything did.' }))),
}
export const Volume = resource('Volume', { ...volume, ...state })
export type Volume = Static<typeof Volume>

export const AttachedVolume = resource('AttachedVolume', {
  ...volume,
  ...state,
  mount_point: text(),
  access_mode: accessMode(),
})
export type AttachedVolume = Static<typeof AttachedVolume>

export const VolumeWithAttachments = resource('VolumeWithAttachments', {
  ...volume,
  ...state,
  attachments: list(
    resource('VolumeAttachment', { access_mode: accessMode(), app_id: uuid(), app_name: text(), mount_point: text() }),
  ),
})
export type VolumeWithAttachments = Static<typeof VolumeWithAttachments>

export const VolumeSnapshot = resource('VolumeSnapshot', {
  id: uuid(),
  tenant_id: uuid(),
  volume_id: uuid(),
  name: text(),
  created_at: dateTime(),
  status: Type.Optional(text({ description: '`creating`, `ready` or `failed`' })),
  size_bytes: Type.Optional(int64()),
  pause_ms: Type.Optional(nullable(double({ description: 'How long the VM that had the volume stood still.' }))),
  error: Type.Optional(nullable(text())),
})
export type VolumeSnapshot = Static<typeof VolumeSnapshot>

export const VolumeUsage = resource('VolumeUsage', {
  volume_id: uuid(),
  size_bytes: int64(),
  used_bytes: int64(),
  snapshot_bytes: int64(),
  measured_at: nullable(dateTime({ description: 'Null before the first measurement.' })),
})
export type VolumeUsage = Static<typeof VolumeUsage>

export const VolumeSchedule = resource('VolumeSchedule', {
  every_minutes: int32({ description: 'How often a snapshot is taken, 15 to 527040; 0: not at all.' }),
  keep: int32({ description: 'How many of them are kept, 1 to 100.' }),
})

const shared = { tag: 'Volumes', auth: 'bearer', project: 'selected' } as const
const params = Type.Object({ volume_id: uuid() })

export const volumeOperations = operations({
  listVolumes: {
    method: 'GET',
    path: '/v1/volumes',
    summary: 'Volumes of the project and where they are attached',
    ...shared,
    scope: 'read',
    list: { order: ['-id'], filters: ['name', 'status'] },
    answer: list(VolumeWithAttachments),
    items: [{ id: 'getVolume', path: '/v1/volumes/{volume_id}', by: 'id', summary: 'One volume', waits: 'status' }],
  },
  createVolume: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/volumes',
    summary: 'Creates an empty volume',
    ...shared,
    scope: 'write',
    body: resource('CreateVolumeRequest', {
      name: fileName(),
      size_mib: int32({ minimum: 1 }),
      pool_name: maybe(text({ maxLength: 63 })),
    }),
    answer: Volume,
  },
  updateVolume: {
    addition: true,
    method: 'PATCH',
    path: '/v1/volumes/{volume_id}',
    summary: 'Makes a volume larger, also while a VM has it',
    ...shared,
    scope: 'write',
    params,
    body: resource('UpdateVolumeRequest', {
      size_mib: int32({ minimum: 1, description: 'At least what it has: a volume never shrinks.' }),
    }),
    fails: [409],
    answer: Volume,
  },
  moveVolume: {
    addition: true,
    method: 'POST',
    path: '/v1/volumes/{volume_id}/move',
    summary: 'Moves a volume that no VM has, with its snapshots, to another host',
    ...shared,
    scope: 'admin',
    params,
    body: resource('MoveVolumeRequest', {
      target_host: text({ minLength: 1, maxLength: 255, description: 'Id or name of a registered host.' }),
    }),
    answer: 'free',
  },
  getVolumeMove: {
    addition: true,
    method: 'GET',
    path: '/v1/volumes/{volume_id}/move',
    summary: 'How far the last move of the volume is',
    ...shared,
    scope: 'read',
    params,
    answer: 'free',
  },
  cancelVolumeMove: {
    addition: true,
    method: 'POST',
    path: '/v1/volumes/{volume_id}/move/cancel',
    summary: 'Gives the move of a volume up; it stays where it was',
    ...shared,
    scope: 'admin',
    params,
    answer: 'free',
  },
  deleteVolume: {
    method: 'DELETE',
    path: '/v1/volumes/{volume_id}',
    summary: 'Deletes a volume that is attached nowhere',
    ...shared,
    scope: 'write',
    params,
    fails: [409],
    answer: Acknowledgement,
  },
  getVolumeUsage: {
    method: 'GET',
    path: '/v1/volumes/{volume_id}/usage',
    summary: 'How much of a volume is used',
    ...shared,
    scope: 'read',
    params,
    answer: VolumeUsage,
  },
  listVolumeSnapshots: {
    method: 'GET',
    path: '/v1/volumes/{volume_id}/snapshots',
    summary: 'Snapshots of a volume, newest first',
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
    summary: 'Takes a crash-consistent snapshot of a volume',
    ...shared,
    scope: 'write',
    params,
    body: resource('CreateVolumeSnapshotRequest', { name: fileName() }),
    answer: VolumeSnapshot,
  },
  restoreVolume: {
    method: 'POST',
    path: '/v1/volumes/{volume_id}/restore',
    summary: 'Puts a volume back to a snapshot of it',
    ...shared,
    scope: 'write',
    params,
    body: resource('RestoreVolumeRequest', { snapshot_name: text({ minLength: 1, maxLength: 100 }) }),
    answer: Volume,
  },
  cloneVolume: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/volumes/{volume_id}/clone',
    summary: 'A new volume with the content of a snapshot',
    ...shared,
    scope: 'write',
    params,
    body: resource('CloneVolumeRequest', {
      name: fileName(),
      snapshot_name: text({ minLength: 1, maxLength: 100 }),
    }),
    answer: Volume,
  },
  getVolumeSchedule: {
    method: 'GET',
    path: '/v1/volumes/{volume_id}/schedule',
    summary: 'When snapshots of a volume are taken by themselves',
    ...shared,
    scope: 'read',
    params,
    answer: VolumeSchedule,
    addition: true,
  },
  setVolumeSchedule: {
    method: 'PUT',
    path: '/v1/volumes/{volume_id}/schedule',
    summary: 'Has snapshots of a volume taken by themselves, and the oldest of them dropped',
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
    summary: 'One snapshot of a volume',
    ...shared,
    scope: 'read',
    params: Type.Object({ snapshot_id: uuid() }),
    answer: VolumeSnapshot,
    waits: 'status',
    addition: true,
  },
  deleteVolumeSnapshot: {
    method: 'DELETE',
    path: '/v1/snapshots/{snapshot_id}',
    summary: 'Deletes a snapshot of a volume',
    ...shared,
    scope: 'write',
    params: Type.Object({ snapshot_id: uuid() }),
    fails: [409],
    answer: Acknowledgement,
  },
  listAppVolumes: {
    method: 'GET',
    path: '/v1/apps/{app_id}/volumes',
    summary: 'Volumes attached to an app',
    ...shared,
    scope: 'read',
    params: Type.Object({ app_id: uuid() }),
    list: { order: ['id'], filters: ['name', 'status'] },
    answer: list(AttachedVolume),
    items: [
      {
        id: 'getAppVolume',
        path: '/v1/apps/{app_id}/volumes/{volume_id}',
        by: 'id',
        summary: 'One volume of an app',
        waits: 'status',
      },
    ],
  },
  attachVolume: {
    method: 'POST',
    path: '/v1/apps/{app_id}/volumes/attach',
    summary: 'Attaches a volume to an app; its VMs have it from their next start',
    ...shared,
    scope: 'write',
    params: Type.Object({ app_id: uuid() }),
    body: resource('AttachVolumeRequest', {
      volume_id: uuid(),
      mount_point: Type.Optional(text({ minLength: 1, maxLength: 4096, default: '/data' })),
      access_mode: Type.Optional(accessMode({ default: 0 })),
    }),
    answer: AttachedVolume,
  },
  detachVolume: {
    method: 'DELETE',
    path: '/v1/apps/{app_id}/volumes/{volume_id}/detach',
    summary: 'Detaches a volume from an app',
    ...shared,
    scope: 'write',
    params: Type.Object({ app_id: uuid(), volume_id: uuid() }),
    fails: [409],
    answer: resource('DetachedVolume', {
      status: text({ description: '`detached`, or `detaching` while a VM has it' }),
      message: nullable(text({ description: 'What happens in the VM, while one has it.' })),
    }),
  },
})

import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { list, resource, text, uuid } from '../http/types.ts'
import { accessMode, AttachedVolume, DetachedVolume } from './resources.ts'

const shared = { tag: 'Volumes', auth: 'bearer', project: 'selected' } as const
const volumeId = () => uuid({ description: 'Id of the volume.' })
const appId = () => uuid({ description: 'Id of the app.' })

export const attachOperations = operations({
  listAppVolumes: {
    method: 'GET',
    path: '/v1/apps/{app_id}/volumes',
    summary: 'List the volumes of an app',
    description:
      'Returns the volumes that are attached to the app, and the paths at which the VMs of the app mount them.',
    ...shared,
    scope: 'read',
    params: Type.Object({ app_id: appId() }),
    list: { order: ['id'], filters: ['name', 'status'] },
    answer: list(AttachedVolume),
    items: [
      {
        id: 'getAppVolume',
        path: '/v1/apps/{app_id}/volumes/{volume_id}',
        by: 'id',
        summary: 'Get a volume of an app',
        description:
          'Returns one volume of the app. With `wait=attached` the response is delayed until the VMs have mounted the volume.',
        waits: 'status',
      },
    ],
  },
  attachVolume: {
    method: 'POST',
    path: '/v1/apps/{app_id}/volumes/attach',
    summary: 'Attach a volume to an app',
    description:
      'Attaches the volume to the app. The VMs of the app mount the volume at their next start. To attach the volume to running VMs, use `POST .../deployments/{job_id}/volumes/attach`.',
    ...shared,
    scope: 'write',
    params: Type.Object({ app_id: appId() }),
    body: resource('AttachVolumeRequest', {
      volume_id: volumeId(),
      mount_point: Type.Optional(
        text({
          minLength: 1,
          maxLength: 4096,
          default: '/data',
          description: 'Absolute path of the directory in the VM where the volume is mounted.',
          examples: ['/data'],
        }),
      ),
      access_mode: Type.Optional(accessMode({ default: 0 })),
    }),
    answer: AttachedVolume,
  },
  detachVolume: {
    method: 'DELETE',
    path: '/v1/apps/{app_id}/volumes/{volume_id}/detach',
    summary: 'Detach a volume from an app',
    description:
      'Detaches the volume from the app; a VM that uses it unmounts it first. The volume and its content stay.',
    ...shared,
    scope: 'write',
    params: Type.Object({ app_id: appId(), volume_id: volumeId() }),
    fails: [409],
    answer: DetachedVolume,
  },
})

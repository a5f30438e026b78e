import type { Deps } from '../base/deps.ts'
import { notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { attachVolume, detachMessage, detachVolume } from './attach.ts'
import * as attachments from './attach-store.ts'
import type { volumeOperations } from './schema.ts'
import * as store from './store.ts'
import { attachedVolume } from './view.ts'

type AttachHandlers = Handlers<Pick<typeof volumeOperations, 'listAppVolumes' | 'attachVolume' | 'detachVolume'>>

export const attachHandlers = (deps: Pick<Deps, 'db'>): AttachHandlers => ({
  listAppVolumes: {
    read: async ({ project, params }) => {
      if (!(await attachments.hasApp(deps.db, project.id, params.app_id))) throw notFound()
      const attached = await attachments.attachmentsOfApp(deps.db, params.app_id)
      const views = attached.map(async one => {
        const volume = await store.byId(deps.db, one.volumeId)
        return volume ? [attachedVolume(volume, one)] : []
      })
      return (await Promise.all(views)).flat()
    },
  },

  attachVolume: {
    write: async call => async tx => {
      const { volume_id: volumeId, mount_point: mountPoint = '/data', access_mode } = call.body
      const { volume, attachment } = await attachVolume(tx, {
        projectId: call.project.id,
        appId: call.params.app_id,
        volumeId,
        mountPoint,
        by: 'user',
        accessMode: access_mode === 1 ? 1 : 0,
      })
      const details = { name: volume.name, app: attachment.appName, mount_point: mountPoint, access_mode }
      call.audit({ action: 'volume.attach', resourceType: 'volume', resourceId: volume.id, details })
      return attachedVolume(volume, attachment)
    },
  },

  detachVolume: {
    write: async call => async tx => {
      const { app_id: appId, volume_id: volumeId } = call.params
      const app = await attachments.lockApp(tx, call.project.id, appId, 'user')
      const attachment = (await attachments.attachmentsOfApp(tx, appId)).find(one => one.volumeId === volumeId)
      if (!app || !attachment) throw notFound()
      const status = await detachVolume(tx, attachment)
      const details = { app: app.name, mount_point: attachment.mountPoint }
      call.audit({ action: 'volume.detach', resourceType: 'volume', resourceId: volumeId, details })
      return { status, message: detachMessage(status, attachment.mountPoint) }
    },
  },
})

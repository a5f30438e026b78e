import type { Attachment } from './attach-store.ts'
import type * as wire from './schema.ts'
import type { VolumeSnapshot } from './snapshot-store.ts'
import type { Volume } from './store.ts'

type Shown = Pick<Volume, 'id' | 'projectId' | 'name' | 'sizeMib' | 'poolName' | 'createdAt' | 'updatedAt'> &
  Pick<Volume, 'hostId' | 'state' | 'error' | 'grownMib' | 'movingTo' | 'arrivedBy'>

function statusOf(v: Pick<Volume, 'hostId' | 'state' | 'grownMib' | 'sizeMib' | 'movingTo' | 'arrivedBy'>): string {
  if (v.movingTo !== null || (v.arrivedBy !== null && v.state === 'creating')) return 'moving'
  // A volume is `pending` until its first use, when a host is chosen and creates it.
  if (v.hostId === null && v.state === 'creating') return 'pending'
  return v.state === 'ready' && v.grownMib < v.sizeMib ? 'growing' : v.state
}

export const volumeView = (v: Shown): wire.Volume => ({
  id: v.id,
  tenant_id: v.projectId,
  name: v.name,
  size_mib: v.sizeMib,
  pool_name: v.poolName,
  created_at: v.createdAt.toISOString(),
  updated_at: v.updatedAt.toISOString(),
  status: statusOf(v),
  message: v.error,
})

export const volumeWithAttachments = (
  v: Shown & {
    readonly attachments: readonly Pick<Attachment, 'accessMode' | 'appId' | 'appName' | 'mountPoint'>[]
  },
) => ({
  ...volumeView(v),
  attachments: v.attachments.map(one => ({
    access_mode: one.accessMode,
    app_id: one.appId,
    app_name: one.appName,
    mount_point: one.mountPoint,
  })),
})

/**
 * Returns the status of an attachment. `waiting`: the volume is attached to the app, but none of its VMs has it yet.
 */
const attachStatus = (a: Attachment): string =>
  a.want === 'detached' ? 'detaching' : a.vms === 0 ? 'waiting' : a.attached === a.vms ? 'attached' : 'attaching'

export const attachedVolume = (v: Shown, a: Attachment): wire.AttachedVolume => ({
  ...volumeView(v),
  mount_point: a.mountPoint,
  access_mode: a.accessMode,
  status: attachStatus(a),
  message: a.trouble ?? v.error,
})

export const snapshotView = (s: VolumeSnapshot): wire.VolumeSnapshot => ({
  id: s.id,
  tenant_id: s.projectId,
  volume_id: s.volumeId,
  name: s.name,
  created_at: s.createdAt.toISOString(),
  status: s.state,
  size_bytes: s.sizeBytes,
  pause_ms: s.pauseMs,
  error: s.error,
})

export const usageView = (v: Volume): wire.VolumeUsage => ({
  volume_id: v.id,
  size_bytes: v.sizeMib * 2 ** 20,
  used_bytes: v.usedBytes,
  snapshot_bytes: v.snapshotBytes,
  measured_at: v.measuredAt?.toISOString() ?? null,
})

import type { Tx } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { notFound } from '../http/errors.ts'
import { type Handlers, feature } from '../http/operation.ts'
import { attachHandlers } from './attach-routes.ts'
import * as attachments from './attach-store.ts'
import { cloneVolume, createVolume, createVolumeSnapshot, deleteVolume, deleteVolumeSnapshot } from './create.ts'
import { restoreVolume } from './create.ts'
import { growVolume } from './grow.ts'
import { moveHandlers } from './move-routes.ts'
import { type Schedule, getSchedule, setSchedule } from './schedule.ts'
import { volumeOperations } from './schema.ts'
import { creationOf } from './creation.ts'
import * as snapshots from './snapshot-store.ts'
import * as store from './store.ts'
import { snapshotView, usageView, volumeView, volumeWithAttachments } from './view.ts'

interface VolumeCall {
  readonly project: { readonly id: string }
  readonly params: { readonly volume_id: string }
}

export const volumeFeature = (deps: Pick<Deps, 'db' | 'config'>) =>
  feature(volumeOperations, {
    ...volumeHandlers(deps),
    ...snapshotHandlers(deps),
    ...attachHandlers(deps),
    ...moveHandlers(deps),
  })

/** Finds a volume of the user in the project. @throws ApiError 404 for any other volume */
async function ownVolume(deps: Pick<Deps, 'db'> | { readonly db: Tx }, call: VolumeCall): Promise<store.Volume> {
  const volume = await store.inProject(deps.db, call.project.id, call.params.volume_id)
  if (!volume) throw notFound()
  return volume
}

type VolumeHandlers = Handlers<
  Pick<typeof volumeOperations, 'listVolumes' | 'createVolume' | 'updateVolume' | 'deleteVolume' | 'getVolumeUsage'>
>

const volumeHandlers = (deps: Pick<Deps, 'db'>): VolumeHandlers => ({
  listVolumes: {
    read: async ({ project }) => (await attachments.list(deps.db, project.id)).map(volumeWithAttachments),
  },

  createVolume: {
    write: async call => async tx => {
      const { name, size_mib, pool_name } = call.body
      const request = { projectId: call.project.id, name, sizeMib: size_mib, poolName: pool_name ?? '' }
      const volume = await createVolume(tx, request)
      call.audit(creationOf(volume))
      return volumeView(volume)
    },
  },

  updateVolume: {
    write: async call => async tx => {
      const volume = await ownVolume({ db: tx }, call)
      const grown = await growVolume(tx, volume.id, call.body.size_mib)
      const details = { name: volume.name, size_mib: grown.sizeMib, before_mib: volume.sizeMib }
      call.audit({ action: 'volume.grow', resourceType: 'volume', resourceId: volume.id, details })
      return volumeView(grown)
    },
  },

  deleteVolume: {
    write: async call => async tx => {
      const volume = await ownVolume({ db: tx }, call)
      await deleteVolume(tx, volume.id)
      const details = { name: volume.name }
      call.audit({ action: 'volume.delete', resourceType: 'volume', resourceId: volume.id, details })
      return { status: 'deleting' as const }
    },
  },

  getVolumeUsage: { read: async call => usageView(await ownVolume(deps, call)) },
})

type SnapshotHandlers = Handlers<
  Pick<
    typeof volumeOperations,
    | 'listVolumeSnapshots'
    | 'getVolumeSnapshot'
    | 'createVolumeSnapshot'
    | 'deleteVolumeSnapshot'
    | 'restoreVolume'
    | 'cloneVolume'
    | 'getVolumeSchedule'
    | 'setVolumeSchedule'
  >
>

const snapshotHandlers = (deps: Pick<Deps, 'db'>): SnapshotHandlers => ({
  listVolumeSnapshots: {
    read: async call => (await snapshots.list(deps.db, (await ownVolume(deps, call)).id)).map(snapshotView),
  },

  createVolumeSnapshot: {
    write: async call => async tx => {
      const volume = await ownVolume({ db: tx }, call)
      const snapshot = await createVolumeSnapshot(tx, volume.id, { name: call.body.name })
      const details = { name: volume.name, snapshot: snapshot.name }
      call.audit({ action: 'volume.snapshot', resourceType: 'volume', resourceId: volume.id, details })
      return snapshotView(snapshot)
    },
  },

  getVolumeSnapshot: {
    read: async ({ project, params }) => {
      const snapshot = await snapshots.inProject(deps.db, project.id, params.snapshot_id)
      if (!snapshot) throw notFound()
      return snapshotView(snapshot)
    },
  },

  deleteVolumeSnapshot: {
    write: async call => async tx => {
      const snapshot = await snapshots.inProject(tx, call.project.id, call.params.snapshot_id)
      if (!snapshot) throw notFound()
      await deleteVolumeSnapshot(tx, snapshot.id)
      const details = { snapshot: snapshot.name }
      call.audit({ action: 'volume.snapshot_delete', resourceType: 'volume', resourceId: snapshot.volumeId, details })
      return { status: 'deleting' as const }
    },
  },

  getVolumeSchedule: {
    read: async call => scheduleView(await getSchedule(deps.db, (await ownVolume(deps, call)).id)),
  },

  setVolumeSchedule: {
    write: async call => async tx => {
      const volume = await ownVolume({ db: tx }, call)
      const { every_minutes: everyMinutes, keep } = call.body
      await setSchedule(tx, volume.id, everyMinutes === 0 ? undefined : { everyMinutes, keep })
      const details = { name: volume.name, every_minutes: everyMinutes, keep }
      call.audit({ action: 'volume.schedule', resourceType: 'volume', resourceId: volume.id, details })
      return scheduleView(await getSchedule(tx, volume.id))
    },
  },

  restoreVolume: {
    write: async call => async tx => {
      const volume = await ownVolume({ db: tx }, call)
      const snapshot = await namedSnapshot(tx, volume.id, call.body.snapshot_name)
      const restored = await restoreVolume(tx, volume.id, snapshot.id)
      const details = { name: volume.name, snapshot: snapshot.name }
      call.audit({ action: 'volume.restore', resourceType: 'volume', resourceId: volume.id, details })
      return volumeView(restored)
    },
  },

  cloneVolume: {
    write: async call => async tx => {
      const volume = await ownVolume({ db: tx }, call)
      const snapshot = await namedSnapshot(tx, volume.id, call.body.snapshot_name)
      const clone = await cloneVolume(tx, snapshot.id, { projectId: call.project.id, name: call.body.name })
      const details = { name: volume.name, clone: clone.name, snapshot: snapshot.name }
      call.audit({ action: 'volume.clone', resourceType: 'volume', resourceId: volume.id, details })
      call.audit(creationOf(clone, { from: volume.name, snapshot: snapshot.name }))
      return volumeView(clone)
    },
  },
})

const scheduleView = (schedule: Schedule | undefined) => ({
  every_minutes: schedule?.everyMinutes ?? 0,
  keep: schedule?.keep ?? 0,
})

async function namedSnapshot(tx: Tx, volumeId: string, name: string): Promise<snapshots.VolumeSnapshot> {
  const snapshot = await snapshots.byName(tx, volumeId, name)
  if (!snapshot) throw notFound()
  return snapshot
}

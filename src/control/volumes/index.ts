/** Volumes: creation, attachment, snapshots, growth, and moves of detached volumes. */
import type { ProjectContents } from '../projects/index.ts'
import { markVolumeForDeletion } from './create.ts'
import * as store from './store.ts'

export { type AttachRequest, type Attached, attachVolume, detachMessage, detachVolume } from './attach.ts'
export { type Attachment, attachmentsOfApp, writerOf } from './attach-store.ts'
export {
  type CloneRequest,
  type NewVolumeRequest,
  assertStorageFits,
  cloneVolume,
  createVolume,
  createVolumeSnapshot,
  deleteVolume,
  deleteVolumeSnapshot,
  restoreVolume,
} from './create.ts'
export { creationOf } from './creation.ts'
export { fullVolumes } from './fullness.ts'
export { growVolume } from './grow.ts'
export { type ForkedVolume, type RetainedVolume, forkVolumes, lockRetained } from './fork-volumes.ts'
export { recordVolume, volumeWorkflow } from './workflow.ts'
export { type LeavingVolume, leavingVolumes } from './drain-report.ts'
export { drainedVolumes } from './move.ts'
export { volumeFeature } from './routes.ts'
export { assertScalable } from './rules.ts'
export { scheduledSnapshots } from './schedule.ts'
export { recordVolumeSnapshot, volumeSnapshotWorkflow } from './snapshot-workflow.ts'
export {
  type VolumeSnapshot,
  byId as findVolumeSnapshot,
  byName as findVolumeSnapshotByName,
  list as listVolumeSnapshots,
} from './snapshot-store.ts'
export { type Volume, type VolumeOwner, byId as findVolume, recordUsages } from './store.ts'

/** The volumes of a project are deleted after the apps and databases that use them. */
export const volumeContents: ProjectContents = {
  name: 'volumes',
  async deleteAll(tx, projectId) {
    for (const id of await store.idsInProject(tx, projectId)) await markVolumeForDeletion(tx, id)
  },
  remaining: (db, projectId) => store.remaining(db, projectId),
}

/**
 * Creates and deletes volumes and their snapshots: writes rows and creates workflows in the caller's transaction, and
 * contacts no host.
 */
import { uniqueViolation } from '../../db/errors.ts'
import type { Tx } from '../../db/db.ts'
import { createWorkflow, poke } from '../../engine/runner.ts'
import { hours, minutes } from '../../lib/duration.ts'
import { newId } from '../../lib/ids.ts'
import { invalidState, nameTaken, notFound } from '../http/errors.ts'
import { pokeMoveOf } from '../moves/index.ts'
import { assertWithin, lockLimits } from '../projects/index.ts'
import * as attachments from './attach-store.ts'
import * as rules from './rules.ts'
import * as snapshots from './snapshot-store.ts'
import * as store from './store.ts'
import type { Volume, VolumeOwner } from './store.ts'

/**
 * Time limit for creating a volume. It is long, because a clone without reflinks copies all data at the speed of the
 * disk.
 */
export const makingMs = hours(1)
/** Maximum number of snapshots per volume, because each may grow as large as the volume. */
const mostSnapshots = 200

export interface NewVolumeRequest {
  readonly projectId: string
  /** Owner of the volume; default: `user`. Volumes with another owner do not appear in the users' lists of volumes. */
  readonly owner?: VolumeOwner
  /** Id of the workflow of kind `owner`, which is poked when the volume or one of its snapshots changes. */
  readonly ownerId?: string
  readonly name: string
  readonly sizeMib: number
  /** Storage pool. If empty or absent, it is chosen when the volume is placed. */
  readonly poolName?: string
  /** Image whose directory `/usr/share/mote/volume` is the initial content. */
  readonly image?: string
}

/**
 * Creates an empty volume. A host is chosen for the volume together with the first VM that needs it.
 * @throws ApiError 400 (field), 403 `plan_limit_exceeded`, 409 `name_taken`
 */
export async function createVolume(tx: Tx, request: NewVolumeRequest): Promise<Volume> {
  const sizeMib = rules.checkSize(request.sizeMib)
  const poolName = rules.checkPoolName(request.poolName ?? '')
  return insert(tx, { ...request, sizeMib, poolName }, 'placing')
}

export interface CloneRequest {
  readonly projectId: string
  readonly owner?: VolumeOwner
  readonly ownerId?: string
  readonly name: string
}

/**
 * Creates a volume with the content of a snapshot, on the snapshot's host.
 * @throws ApiError 403 `plan_limit_exceeded`, 404, 409 `name_taken`, `operation_in_progress`, `invalid_state`
 */
export async function cloneVolume(tx: Tx, snapshotId: string, request: CloneRequest): Promise<Volume> {
  const snapshot = await snapshots.byId(tx, snapshotId)
  const source = snapshot && (await store.lock(tx, snapshot.volumeId))
  if (!source || snapshot.want === 'absent') throw notFound()
  rules.assertSnapshotReady((await snapshots.byId(tx, snapshotId)) ?? snapshot)
  rules.assertAtRest(source)
  const { sizeMib, poolName, hostId, bound, key } = source
  const from = { fromVolumeId: source.id, fromSnapshotId: snapshotId }
  return insert(tx, { ...request, sizeMib, poolName, hostId, bound, key, ...from }, 'creating')
}

/** Inserts a volume and its workflow. @throws ApiError 403 `plan_limit_exceeded`, 409 `name_taken` */
export async function insert(
  tx: Tx,
  request: NewVolumeRequest & Partial<Pick<Volume, 'hostId' | 'bound' | 'fromVolumeId' | 'fromSnapshotId' | 'key'>>,
  phase: 'placing' | 'creating',
): Promise<Volume> {
  const { projectId, owner = 'user', name } = request
  const limits = await lockLimits(tx, projectId)
  const used = await store.projectUsage(tx, projectId)
  if (owner === 'user') assertWithin(limits, 'maxVolumes', used.volumes)
  // Plans limit storage in whole GiB, so round up the total size of the project's volumes.
  const before = Math.ceil(used.sizeMib / 1024)
  assertWithin(limits, 'maxStorageGibTotal', before, Math.ceil((used.sizeMib + request.sizeMib) / 1024) - before)
  const id = newId()
  const whole = {
    hostId: null,
    bound: true,
    fromVolumeId: null,
    fromSnapshotId: null,
    poolName: '',
    ownerId: null,
    key: null,
    image: '',
  }
  try {
    await store.insert(tx, { ...whole, ...request, id, owner })
  } catch (cause) {
    if (uniqueViolation(cause, 'volume_name')) throw nameTaken('volume', name)
    throw cause
  }
  await createWorkflow(tx, 'volume', id, phase, phase === 'creating' ? { deadlineMs: makingMs } : {})
  return found(await store.byId(tx, id))
}

/**
 * Checks the total size of the project's volumes against the plan's storage limit. Called after volumes have begun to
 * count toward the limit, such as those of a spare database branch that a user has claimed. Locks the project until
 * the transaction ends.
 * @throws ApiError 403 `plan_limit_exceeded`
 */
export async function assertStorageFits(tx: Tx, projectId: string): Promise<void> {
  const limits = await lockLimits(tx, projectId)
  const { sizeMib } = await store.projectUsage(tx, projectId)
  assertWithin(limits, 'maxStorageGibTotal', Math.ceil(sizeMib / 1024), 0)
}

/**
 * Deletes the volume and its snapshots; volumes cloned from it are not deleted.
 * @throws ApiError 404, 409 `volume_in_use`, `operation_in_progress`
 */
export async function deleteVolume(tx: Tx, id: string): Promise<void> {
  const volume = await store.lock(tx, id)
  if (!volume) throw notFound()
  rules.assertFree(volume, await attachments.attachmentsOf(tx, id), 'delete')
  if ((await store.clonesUnderWay(tx, { volumeId: id })) > 0)
    throw rules.underWay(`A clone of volume ${volume.name} is being created. Wait until it is ready.`)
  await markVolumeForDeletion(tx, id)
}

/** Marks the volume for deletion without checking whether it is in use, because its project is being deleted. */
export async function markVolumeForDeletion(tx: Tx, id: string): Promise<void> {
  if (!(await store.markForDeletion(tx, id))) return
  await poke(tx, 'volume', id)
  await pokeMoveOf(tx, id)
}

/**
 * Creates the row and the workflow of a crash-consistent snapshot of a volume.
 * @throws ApiError 404, 409 `name_taken`, `operation_in_progress`, `invalid_state`
 */
export async function createVolumeSnapshot(
  tx: Tx,
  volumeId: string,
  { name, kind = 'user' }: { readonly name: string; readonly kind?: snapshots.VolumeSnapshot['kind'] },
): Promise<snapshots.VolumeSnapshot> {
  const volume = await store.lock(tx, volumeId)
  if (!volume) throw notFound()
  if (volume.state === 'restoring')
    throw rules.underWay(`Volume ${volume.name} is being restored. Try again afterwards.`)
  if (volume.state === 'failed') throw invalidState(`Volume ${volume.name} could not be created, so it has no content.`)
  if ((await snapshots.list(tx, volumeId)).length >= mostSnapshots)
    throw invalidState(`A volume can have at most ${mostSnapshots} snapshots. Delete one first.`)
  const id = newId()
  try {
    await snapshots.insert(tx, { id, projectId: volume.projectId, volumeId, name, kind })
  } catch (cause) {
    if (uniqueViolation(cause, 'volume_snapshot_name')) throw nameTaken('snapshot of this volume', name)
    throw cause
  }
  await createWorkflow(tx, 'volume-snapshot', id, 'creating', { deadlineMs: makingMs + minutes(1) })
  // Poke the volume's workflow, which places a volume that has no host yet.
  await poke(tx, 'volume', volumeId)
  return found(await snapshots.byId(tx, id))
}

/**
 * Deletes a volume snapshot.
 * @throws ApiError 404, 409 `operation_in_progress` while a volume is being cloned or restored from it
 */
export async function deleteVolumeSnapshot(tx: Tx, id: string): Promise<void> {
  const snapshot = await snapshots.byId(tx, id)
  const volume = snapshot && (await store.lock(tx, snapshot.volumeId))
  if (!snapshot || !volume) throw notFound()
  if (volume.state === 'restoring' && volume.restoreSnapshotId === id)
    throw rules.underWay(`The volume is being restored from snapshot ${snapshot.name}. Wait until that is done.`)
  if ((await store.clonesUnderWay(tx, { snapshotId: id })) > 0)
    throw rules.underWay(`A clone of snapshot ${snapshot.name} is being created. Wait until it is ready.`)
  if (await snapshots.markForDeletion(tx, id)) await poke(tx, 'volume-snapshot', id)
}

/**
 * Restores a volume from one of its snapshots, completely or not at all. The volume may stay attached. VMs that start
 * during the restore wait until it has ended, and a VM that would resume from its memory snapshot boots instead,
 * because the restore raises the volume's attach generation.
 * @throws ApiError 404, 409 `volume_in_use`, `operation_in_progress`, `invalid_state`
 */
export async function restoreVolume(tx: Tx, volumeId: string, snapshotId: string): Promise<Volume> {
  const volume = await store.lock(tx, volumeId)
  const snapshot = await snapshots.byId(tx, snapshotId)
  if (!volume || snapshot?.volumeId !== volumeId || snapshot.want === 'absent') throw notFound()
  rules.assertNotHeld(volume, await attachments.attachmentsOf(tx, volumeId))
  rules.assertAtRest(volume)
  rules.assertSnapshotReady(snapshot)
  if ((await snapshots.list(tx, volumeId)).some(one => one.state === 'creating'))
    throw rules.underWay(`A snapshot of volume ${volume.name} is being taken. Wait until that is done.`)
  if (!(await store.restore(tx, volumeId, snapshotId)))
    throw rules.underWay(`Volume ${volume.name} is being created or restored. Wait until that is done.`)
  await poke(tx, 'volume', volumeId)
  return found(await store.byId(tx, volumeId))
}

function found<T>(row: T | undefined): T {
  if (row === undefined) throw new Error('BUG: a row that was just written does not exist')
  return row
}

/**
 * Storage of a branch on volumes: one for its data, one for its backups and log. The hosts' storage pools copy volumes
 * for new branches.
 */
import type { Tx } from '../../db/db.ts'
import { minutes } from '../../lib/duration.ts'
import { lockVolumes } from '../moves/index.ts'
import {
  cloneVolume,
  createVolume,
  createVolumeSnapshot,
  deleteVolume,
  deleteVolumeSnapshot,
  findVolume,
  findVolumeSnapshot,
  findVolumeSnapshotByName,
  growVolume,
  restoreVolume,
} from '../volumes/index.ts'
import type { DatabaseDeps } from './deps.ts'
import { provision, programOf } from './provision.ts'
import { runInside } from './probe.ts'
import * as snapshots from './snapshot-store.ts'
import type { Progress, Storage } from './storage.ts'
import type { Branch } from './store.ts'
import * as store from './store.ts'

/**
 * Size of the backup volume. The repository holds two compressed full backups and the log between them, which is more
 * than the data of a small database.
 */
const backupMibOf = (diskMib: number) => diskMib * 2

export const volumeStorage = (deps: DatabaseDeps): Storage => ({
  async make(b, signal) {
    if (b.appId !== null) return { state: 'ready' }
    if (b.fromMoment === null) return { state: 'ready', write: tx => furnish(deps, tx, b) }
    return makeFromBackups(deps, b, signal)
  },

  async beginRewind(tx, b) {
    const snapshot = b.restoreSnapshotId ? await snapshots.byId(tx, b.restoreSnapshotId) : undefined
    if (!b.dataVolumeId || !snapshot?.volumeSnapshotId)
      throw new Error(`BUG: branch ${b.id} has nothing to restore from`)
    await restoreVolume(tx, b.dataVolumeId, snapshot.volumeSnapshotId)
  },

  async rewind(b) {
    const volume = b.dataVolumeId ? await findVolume(deps.db, b.dataVolumeId) : undefined
    if (!volume) return { state: 'failed', error: 'The volume of the branch no longer exists.' }
    if (volume.state === 'restoring') return { state: 'waiting' }
    return volume.error ? { state: 'failed', error: volume.error } : { state: 'ready' }
  },

  async release(b) {
    const ids = [b.dataVolumeId, b.backupVolumeId].filter(id => id !== null)
    const left = (await Promise.all(ids.map(id => findVolume(deps.db, id)))).filter(volume => volume !== undefined)
    if (left.length === 0) return { state: 'ready' }
    return {
      state: 'waiting',
      async write(tx) {
        for (const volume of left) if (volume.want === 'present') await deleteVolume(tx, volume.id)
      },
    }
  },

  async snapshot(s, b) {
    const { dataVolumeId } = b
    if (!dataVolumeId) return { state: 'failed', error: 'The branch has no volume yet.' }
    if (s.volumeSnapshotId === null)
      return {
        state: 'waiting',
        async write(tx) {
          const made = await createVolumeSnapshot(tx, dataVolumeId, { name: s.id, kind: 'schedule' })
          await snapshots.hasVolumeSnapshot(tx, s.id, made.id)
        },
      }
    const made = await findVolumeSnapshot(deps.db, s.volumeSnapshotId)
    if (!made || made.state === 'failed')
      return { state: 'failed', error: made?.error ?? 'The snapshot no longer exists.' }
    if (made.state === 'creating') return { state: 'waiting' }
    return { state: 'ready', made: { sizeBytes: made.sizeBytes, lsn: null } }
  },

  async dropSnapshot(tx, s) {
    if (!s.volumeSnapshotId) return
    const made = await findVolumeSnapshot(tx, s.volumeSnapshotId)
    if (made?.want === 'present') await deleteVolumeSnapshot(tx, made.id)
  },
})

/**
 * Creates the volumes, app and VM of an empty branch or of one from a snapshot, in one commit.
 * @throws ApiError 403 `plan_limit_exceeded`, 409 when the snapshot is not ready
 */
export async function furnish(deps: DatabaseDeps, tx: Tx, b: Branch): Promise<void> {
  const of = { projectId: b.projectId, owner: 'database', ownerId: b.id } as const
  const source = b.fromSnapshotId ? await snapshots.byId(tx, b.fromSnapshotId) : undefined
  if (b.fromSnapshotId && !source?.volumeSnapshotId)
    throw new Error(`BUG: the snapshot of branch ${b.id} does not exist`)
  const { diskMib } = b.database
  const data = source?.volumeSnapshotId
    ? await cloneVolume(tx, source.volumeSnapshotId, { ...of, name: `${b.id}-data` })
    : await createVolume(tx, { ...of, name: `${b.id}-data`, sizeMib: diskMib, image: programOf(deps, b).image })
  const backup = await createVolume(tx, { ...of, name: `${b.id}-backup`, sizeMib: backupMibOf(diskMib) })
  await provision(deps, tx, b, { dataVolumeId: data.id, backupVolumeId: backup.id })
}

/**
 * Enlarges the disks of these branches while they run.
 * @throws ApiError 403 `plan_limit_exceeded`, 409 `operation_in_progress` while a branch is being restored, 503
 * `no_capacity`
 */
export async function growDisks(tx: Tx, branchIds: readonly string[], diskMib: number): Promise<void> {
  const sizes = new Map<string, number>()
  for (const id of branchIds) {
    const b = await store.branch(tx, id)
    if (b?.dataVolumeId && b.want === 'live') sizes.set(b.dataVolumeId, diskMib)
    if (b?.backupVolumeId && b.want === 'live') sizes.set(b.backupVolumeId, backupMibOf(diskMib))
  }
  // All volumes must be locked before the project, and `growVolume` locks the project: docs/engine.md, order of locks.
  await lockVolumes(tx, [...sizes.keys()])
  for (const [id, sizeMib] of sizes) {
    await growVolume(tx, id, sizeMib, 'disk_mib')
  }
}

/**
 * Creates a branch from the backups of its parent: archives the parent's newest log, copies the parent's backup volume,
 * and starts a VM that replays the log.
 */
async function makeFromBackups(deps: DatabaseDeps, b: Branch, signal: AbortSignal): Promise<Progress> {
  const parent = b.parentId ? await store.branch(deps.db, b.parentId) : undefined
  const from = parent?.backupVolumeId
  if (!parent || !from) return { state: 'failed', error: 'The branch with the backups no longer exists.' }
  // Backups in object storage are not copied: the branch reads those of its parent.
  if (b.backupTarget !== null) {
    if (!(await isArchived(deps, parent, b, signal))) return { state: 'waiting', ms: 2000 }
    return { state: 'ready', write: tx => furnish(deps, tx, b) }
  }
  const copy = await findVolumeSnapshotByName(deps.db, from, b.id)
  if (!copy) {
    if (!(await isArchived(deps, parent, b, signal))) return { state: 'waiting', ms: 2000 }
    return {
      state: 'waiting',
      async write(tx) {
        await createVolumeSnapshot(tx, from, { name: b.id, kind: 'schedule' })
      },
    }
  }
  if (copy.state === 'failed') return { state: 'failed', error: copy.error ?? 'The backups could not be copied.' }
  if (copy.state === 'creating') return { state: 'waiting', ms: 500 }
  return {
    state: 'ready',
    async write(tx) {
      const of = { projectId: b.projectId, owner: 'database', ownerId: b.id } as const
      const data = await createVolume(tx, { ...of, name: `${b.id}-data`, sizeMib: b.database.diskMib })
      const backup = await cloneVolume(tx, copy.id, { ...of, name: `${b.id}-backup` })
      await provision(deps, tx, b, { dataVolumeId: data.id, backupVolumeId: backup.id })
    },
  }
}

/**
 * How long a running parent may take to archive its newest log. After that time the branch starts from what is
 * archived.
 */
const archivingMs = minutes(5)

/**
 * Returns whether the archive contains everything that the parent has committed; also true if the parent is stopped, or
 * did not archive its log in time.
 */
async function isArchived(deps: DatabaseDeps, parent: Branch, b: Branch, signal: AbortSignal): Promise<boolean> {
  if (Date.now() - b.createdAt.getTime() > archivingMs) return true
  try {
    const ran = await runInside(deps, parent, ['/usr/local/bin/mote-archive', b.fromMoment ?? 'latest'], signal, 25_000)
    return ran === undefined || ran.exitCode === 0
  } catch (err) {
    deps.log.warn({ err, branchId: parent.id }, 'the newest log is not archived yet; retrying')
    return false
  }
}

/** Deletes the copy of the parent's backups once the branch has its own backup volume. */
export async function dropBackupCopy(deps: DatabaseDeps, tx: Tx, b: Branch): Promise<void> {
  const parent = b.parentId ? await store.branch(deps.db, b.parentId) : undefined
  const copy = parent?.backupVolumeId ? await findVolumeSnapshotByName(tx, parent.backupVolumeId, b.id) : undefined
  const own = b.backupVolumeId ? await findVolume(tx, b.backupVolumeId) : undefined
  if (copy?.want === 'present' && own?.state === 'ready') await deleteVolumeSnapshot(tx, copy.id)
}

/**
 * Creates the volumes of a fork (an app started from a VM snapshot): clones of the volume copies in that snapshot. See
 * docs/decisions/0048-vm-snapshots-with-volumes.md
 */
import type { SnapshotDisk } from '../../contract/agent.ts'
import { type Tx, statement } from '../../db/db.ts'
import { invalidState } from '../http/errors.ts'
import { attachVolume } from './attach.ts'
import { insert } from './create.ts'
import * as rules from './rules.ts'
import * as store from './store.ts'
import type { Volume } from './store.ts'

/** A VM snapshot, and the host that stores its files. */
export interface RetainedVm {
  readonly id: string
  readonly name: string
  readonly projectId: string
  readonly hostId: string
  readonly disks: readonly SnapshotDisk[]
}

/** A volume that the snapshot's guest has mounted. */
export interface RetainedVolume {
  readonly disk: SnapshotDisk
  readonly volume: Volume
}

/** A volume attached to the fork. */
export interface ForkedVolume {
  readonly volume: Volume
  /** Id of the volume that this volume was cloned from; its own id if the fork shares a volume that it only reads. */
  readonly of: string
  readonly mountPoint: string
  readonly readOnly: boolean
}

const takenNames = statement<{ name: string }>(
  'volumes.takenNames',
  `SELECT name FROM volume WHERE project_id = $1 AND owner = 'user' AND want = 'present' AND name = ANY($2::text[])`,
)
/** Maximum length of a volume name; see `fileName`. */
const nameLength = 63
const mostOfOneName = 20

/**
 * Locks the volumes of the VM snapshot until the transaction ends. The caller must not have locked the project yet.
 * @throws ApiError 409 `invalid_state`, `operation_in_progress`, if a volume or its copy cannot be used; with its name
 * and the reason
 */
export async function lockRetained(tx: Tx, snapshot: RetainedVm): Promise<RetainedVolume[]> {
  const kept: RetainedVolume[] = []
  for (const disk of snapshot.disks.toSorted((a, b) => (a.volumeId < b.volumeId ? -1 : 1))) {
    const volume = await store.lock(tx, disk.volumeId)
    // The list of volumes comes from a host's report, so check that each belongs to the same project and to the user.
    if (!volume || volume.projectId !== snapshot.projectId || volume.owner !== 'user')
      throw invalidState(
        `Volume ${disk.volumeId} at ${disk.mountPoint} was deleted, together with the copy that snapshot ${snapshot.name} had of it.`,
      )
    assertThere(snapshot, disk, volume)
    kept.push({ disk, volume })
  }
  return kept
}

function assertThere(snapshot: RetainedVm, disk: SnapshotDisk, volume: Volume): void {
  rules.assertAtRest(volume)
  const { name } = volume
  if (volume.bound && volume.hostId !== snapshot.hostId)
    throw invalidState(
      `Volume ${name} has moved to another host without snapshot ${snapshot.name}. Take a new snapshot.`,
    )
  if (disk.readOnly && volume.attachGeneration !== disk.generation)
    throw invalidState(
      `Volume ${name}, which the VM of snapshot ${snapshot.name} only reads, has been written to since then. Take a new snapshot.`,
    )
  if (!disk.readOnly && !disk.copied)
    throw invalidState(`Snapshot ${snapshot.name} has no copy of volume ${name}. Take a new snapshot.`)
}

/**
 * Attaches to a new app the volumes that the snapshot's guest has mounted, at the same mount points. The fork gets
 * clones of the volumes that the guest writes to, and shares those that it only reads.
 * @throws ApiError 403 `plan_limit_exceeded`, 409 `volume_in_use`, `name_taken`
 */
export async function forkVolumes(
  tx: Tx,
  snapshot: Pick<RetainedVm, 'id' | 'projectId'>,
  kept: readonly RetainedVolume[],
  app: { readonly id: string; readonly name: string },
): Promise<ForkedVolume[]> {
  const forked: ForkedVolume[] = []
  for (const { disk, volume: source } of kept) {
    const volume = disk.readOnly ? source : await cloneKept(tx, snapshot, source, app.name)
    const { mountPoint, readOnly } = disk
    const { projectId } = snapshot
    const accessMode = readOnly ? 1 : 0
    await attachVolume(tx, { projectId, volumeId: volume.id, appId: app.id, mountPoint, accessMode, by: 'user' })
    forked.push({ volume, of: source.id, mountPoint, readOnly })
  }
  return forked
}

/**
 * Clones the copy of the volume in the VM snapshot. The clone is in the same pool and has the same encryption key as
 * the volume.
 */
async function cloneKept(
  tx: Tx,
  { id, projectId }: Pick<RetainedVm, 'id' | 'projectId'>,
  { id: fromVolumeId, name, sizeMib, poolName, hostId, bound, key }: Volume,
  appName: string,
): Promise<Volume> {
  const request = { projectId, name: await freeName(tx, projectId, `${appName}-${name}`) }
  const from = { fromVolumeId, fromSnapshotId: id }
  return insert(tx, { ...request, sizeMib, poolName, hostId, bound, key, ...from }, 'creating')
}

/**
 * Returns an unused name for a clone: the wanted name, or the name with a number. A volume of an earlier fork may have
 * the wanted name, because volumes are not deleted with their apps.
 */
async function freeName(tx: Tx, projectId: string, wanted: string): Promise<string> {
  const numbered = Array.from({ length: mostOfOneName }, (_, n) => (n === 0 ? '' : `-${n + 1}`))
  const names = numbered.map(end => `${wanted.slice(0, nameLength - end.length)}${end}`)
  const taken = new Set((await tx.rows(takenNames, [projectId, names])).map(row => row.name))
  return names.find(name => !taken.has(name)) ?? wanted
}

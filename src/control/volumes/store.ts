import { type Db, type Sql, type Tx, statement } from '../../db/db.ts'

/** Owner of a volume. Users list only the volumes with owner `user`. */
export type VolumeOwner = 'user' | 'database'

export interface Volume {
  readonly id: string
  readonly projectId: string
  readonly owner: VolumeOwner
  /** Id of the workflow to poke after changes of the volume; the workflow's kind is `owner`. Null: none. */
  readonly ownerId: string | null
  readonly name: string
  readonly sizeMib: number
  /** Size to which the host has grown the volume; less than `sizeMib` while it grows. */
  readonly grownMib: number
  /** Name of the volume's storage pool. Empty until the volume has a host, unless a pool was requested. */
  readonly poolName: string
  readonly hostId: string | null
  /** True if only the host `hostId` can access the volume; false for a volume in a shared pool. */
  readonly bound: boolean
  readonly want: 'present' | 'absent'
  readonly state: 'creating' | 'ready' | 'restoring' | 'failed'
  readonly generation: number
  /** Image whose directory `/usr/share/mote/volume` is the initial content; empty: none. */
  readonly image: string
  readonly fromVolumeId: string | null
  readonly fromSnapshotId: string | null
  readonly restoreSnapshotId: string | null
  readonly restores: number
  /** Encryption key, sealed with purpose `volume.key`; set only in encrypted pools. */
  readonly key: Buffer | null
  readonly usedBytes: number
  readonly snapshotBytes: number
  readonly measuredAt: Date | null
  readonly error: string | null
  readonly createdAt: Date
  readonly updatedAt: Date
  /** Whether the volume's host is lost for now (`hostLost`), or was removed for good (`hostRemoved`). */
  readonly hostLost: boolean
  readonly hostRemoved: boolean
  /** Target host of a move in progress; null: the volume is not moving. */
  readonly movingTo: string | null
  /** Id of the last move of the volume, which brought it to its current host; null: it never moved. */
  readonly arrivedBy: string | null
  /** Whether a move of the volume is unfinished, so that a second host has or will have a copy of it. */
  readonly copied: boolean
  /** Whether the volume needs a host even without a VM, because a snapshot of it was requested. */
  readonly needed: boolean
  /**
   * Fences VMs that had the volume attached earlier: it is raised for each VM that attaches the volume read-write, and
   * whenever the volume's content is replaced.
   */
  readonly attachGeneration: number
}

const columns = `o.id, o.project_id AS "projectId", o.owner, o.owner_id AS "ownerId", o.name, o.size_mib AS "sizeMib", o.grown_mib AS "grownMib", o.pool_name AS "poolName",
  o.host_id AS "hostId", o.bound, o.want, o.state, o.generation, o.image, o.from_volume_id AS "fromVolumeId",
  o.from_snapshot_id AS "fromSnapshotId", o.restore_snapshot_id AS "restoreSnapshotId", o.restores, o.key,
  o.used_bytes AS "usedBytes", o.snapshot_bytes AS "snapshotBytes", o.measured_at AS "measuredAt", o.error,
  o.created_at AS "createdAt", o.updated_at AS "updatedAt", h.lost_at IS NOT NULL AS "hostLost",
  h.removed_at IS NOT NULL AS "hostRemoved", o.moving_to AS "movingTo", o.arrived_by AS "arrivedBy",
  o.attach_generation AS "attachGeneration",
  EXISTS (SELECT FROM volume_move x WHERE x.volume_id = o.id AND x.ended_at IS NULL) AS copied,
  EXISTS (SELECT FROM volume_snapshot s WHERE s.volume_id = o.id AND s.state = 'creating') AS needed`
const joined = `FROM volume o LEFT JOIN host h ON h.id = o.host_id`

const volumeById = statement<Volume>('volumes.byId', `SELECT ${columns} ${joined} WHERE o.id = $1`)
const volumesByIds = statement<Volume>(
  'volumes.byIds',
  `SELECT ${columns} ${joined} WHERE o.id = ANY($1::uuid[]) ORDER BY o.id`,
)
const volumeOfProject = statement<Volume>(
  'volumes.ofProject',
  `SELECT ${columns} ${joined} WHERE o.id = $2 AND o.project_id = $1 AND o.owner = 'user' AND o.want = 'present'`,
)
// FOR NO KEY UPDATE, because inserts of rows that reference the volume take a key share lock, for which they would have
// to wait with FOR UPDATE.
const lockVolume = statement(
  'volumes.lock',
  `SELECT id FROM volume WHERE id = $1 AND want = 'present' FOR NO KEY UPDATE`,
)
const insertVolume = statement(
  'volumes.insert',
  `INSERT INTO volume (id, project_id, owner, name, size_mib, pool_name, host_id, bound, from_volume_id,
     from_snapshot_id, owner_id, key, image, grown_mib)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $5)`,
)
const usageOfProject = statement<{ volumes: number; sizeMib: number }>(
  'volumes.projectUsage',
  `SELECT (count(*) FILTER (WHERE owner = 'user'))::int AS volumes, coalesce(sum(size_mib), 0)::float8 AS "sizeMib"
   FROM volume v WHERE project_id = $1 AND want = 'present'
     AND NOT EXISTS (SELECT FROM branch b WHERE b.id = v.owner_id AND b.kind = 'spare')`,
)
const placeVolume = statement(
  'volumes.place',
  `UPDATE volume SET host_id = $2, bound = $3, updated_at = now(),
     pool_name = CASE WHEN pool_name = '' THEN $4 ELSE pool_name END
   WHERE id = $1 AND (host_id IS NULL OR NOT bound)`,
)
const setState = statement(
  'volumes.setState',
  `UPDATE volume SET state = $3, error = $4, updated_at = now() WHERE id = $1 AND state = $2`,
)
const raiseCreating = statement(
  'volumes.tryAgain',
  `UPDATE volume SET generation = generation + 1, error = $3, updated_at = now()
   WHERE id = $1 AND generation = $2 AND state = 'creating' AND want = 'present'`,
)
const markDeleted = statement(
  'volumes.markDeleted',
  `UPDATE volume SET want = 'absent', generation = generation + 1, updated_at = now() WHERE id = $1 AND want = 'present'`,
)
// A restore raises the attach generation, as attaching the volume to a writer does, so that no VM resumes from a memory
// snapshot that does not match the restored content.
const startRestore = statement(
  'volumes.startRestore',
  `UPDATE volume SET state = 'restoring', restore_snapshot_id = $2, restores = restores + 1, generation = generation + 1,
     attach_generation = attach_generation + 1, updated_at = now() WHERE id = $1 AND state = 'ready' AND moving_to IS NULL`,
)
const growVolume = statement(
  'volumes.grow',
  `UPDATE volume SET size_mib = $2, grown_mib = CASE WHEN host_id IS NULL THEN $2 ELSE grown_mib END,
     generation = generation + 1, error = NULL, updated_at = now() WHERE id = $1 AND size_mib < $2`,
)
const setGrown = statement(
  'volumes.grown',
  `UPDATE volume SET grown_mib = $2, updated_at = now() WHERE id = $1 AND grown_mib < $2`,
)
const stopGrowing = statement(
  'volumes.stopGrowing',
  `UPDATE volume SET size_mib = grown_mib, error = $3, updated_at = now() WHERE id = $1 AND size_mib = $2`,
)
const setKeyOf = statement('volumes.setKey', `UPDATE volume SET key = $2 WHERE id = $1 AND key IS NULL`)
const deleteVolume = statement('volumes.delete', `DELETE FROM volume WHERE id = $1`)
const vmsOfVolume = statement<{ id: string }>('volumes.vms', `SELECT vm_id AS id FROM vm_disk WHERE volume_id = $1`)
const unfinishedSnapshots = statement<{ id: string }>(
  'volumes.unfinishedSnapshots',
  `SELECT id FROM volume_snapshot WHERE volume_id = $1 AND state = 'creating'`,
)
const idsOfProject = statement<{ id: string }>(
  'volumes.idsOfProject',
  `SELECT id FROM volume WHERE project_id = $1 AND want = 'present' ORDER BY id`,
)
const remainingVolumes = statement<{ count: number }>(
  'volumes.remaining',
  `SELECT count(*)::int AS count FROM volume WHERE project_id = $1`,
)
const unfinishedClones = statement<{ count: number }>(
  'volumes.unfinishedClones',
  `SELECT count(*)::int AS count FROM volume
   WHERE want = 'present' AND state = 'creating' AND arrived_by IS NULL AND (from_volume_id = $1 OR from_snapshot_id = $2)`,
)
const recordUsage = statement(
  'volumes.recordUsage',
  // Locks the volumes in id order, because several hosts may report the volumes of a shared pool at the same time.
  `WITH locked AS (
     SELECT id FROM volume WHERE id = ANY ($2::uuid[]) AND (host_id = $1 OR NOT bound) ORDER BY id FOR NO KEY UPDATE)
   UPDATE volume o SET used_bytes = u.used, snapshot_bytes = u.snapshots, measured_at = now()
   FROM unnest($2::uuid[], $3::bigint[], $4::bigint[]) AS u(id, used, snapshots)
   WHERE o.id = u.id AND o.id IN (SELECT id FROM locked)`,
)

export type NewVolume = Pick<
  Volume,
  | 'id'
  | 'projectId'
  | 'owner'
  | 'ownerId'
  | 'name'
  | 'sizeMib'
  | 'poolName'
  | 'hostId'
  | 'bound'
  | 'fromVolumeId'
  | 'fromSnapshotId'
  | 'key'
  | 'image'
>

export const byId = (sql: Sql, id: string) => sql.maybe(volumeById, [id])
export const byIds = (sql: Sql, ids: readonly string[]) => sql.rows(volumesByIds, [ids])
/** Returns a volume of the user, not one of the platform. */
export const inProject = (sql: Sql, projectId: string, id: string) => sql.maybe(volumeOfProject, [projectId, id])
/**
 * Locks the volume until the transaction ends, so that it is attached, restored, cloned and deleted by one transaction
 * at a time.
 */
export const lock = async (tx: Tx, id: string) => {
  const rows = await tx.rows(lockVolume, [id])
  return rows.length === 1 ? byId(tx, id) : undefined
}
export const insert = (tx: Tx, v: NewVolume) =>
  tx.run(insertVolume, [
    v.id,
    v.projectId,
    v.owner,
    v.name,
    v.sizeMib,
    v.poolName,
    v.hostId,
    v.bound,
    v.fromVolumeId,
    v.fromSnapshotId,
    v.ownerId,
    v.key,
    v.image,
  ])
/**
 * Returns the number of the users' own volumes in the project, and the total size of all volumes, including those of
 * databases.
 */
export const projectUsage = (tx: Tx, projectId: string) => tx.one(usageOfProject, [projectId])
export const place = async (
  tx: Tx,
  id: string,
  { hostId, bound, pool }: { readonly hostId: string; readonly bound: boolean; readonly pool: string },
) => (await tx.run(placeVolume, [id, hostId, bound, pool])) === 1
/** Changes the volume's state. Returns false if the volume is not in the state `from`. */
export const enter = async (tx: Tx, id: string, from: Volume['state'], to: Volume['state'], error: string | null) =>
  (await tx.run(setState, [id, from, to, error])) === 1
/** Raises the generation of the volume's desired state, so that the host tries again to create it. */
export const tryAgain = async (tx: Tx, v: Pick<Volume, 'id' | 'generation'>, error: string) =>
  void (await tx.run(raiseCreating, [v.id, v.generation, error]))
export const markForDeletion = async (tx: Tx, id: string) => (await tx.run(markDeleted, [id])) === 1
export const restore = async (tx: Tx, id: string, snapshotId: string) =>
  (await tx.run(startRestore, [id, snapshotId])) === 1
/** Sets a larger size. Returns false if the volume already has this size or more. */
export const grow = async (tx: Tx, id: string, sizeMib: number) => (await tx.run(growVolume, [id, sizeMib])) === 1
export const hasGrown = (tx: Tx, id: string, sizeMib: number) => tx.run(setGrown, [id, sizeMib])
/** Resets the volume's size after the host could not grow it, unless another size was requested in the meantime. */
export const giveUpGrowing = (tx: Tx, v: Pick<Volume, 'id' | 'sizeMib'>, error: string) =>
  tx.run(stopGrowing, [v.id, v.sizeMib, error])
/** Sets the encryption key if it is not set yet; a volume's key never changes. */
export const setKey = (tx: Tx, id: string, sealed: Buffer) => tx.run(setKeyOf, [id, sealed])
export const remove = (tx: Tx, id: string) => tx.run(deleteVolume, [id])
/** Returns the ids of the VMs that have the volume attached or are about to attach it. */
export const vmIds = async (sql: Sql, id: string) => (await sql.rows(vmsOfVolume, [id])).map(row => row.id)
export const snapshotsUnderWay = async (tx: Tx, id: string) =>
  (await tx.rows(unfinishedSnapshots, [id])).map(row => row.id)
export const idsInProject = async (sql: Sql, projectId: string) =>
  (await sql.rows(idsOfProject, [projectId])).map(row => row.id)
export const remaining = async (db: Db, projectId: string) => (await db.one(remainingVolumes, [projectId])).count
/** Counts clones of the volume or of the snapshot that are still being created. */
export const clonesUnderWay = async (
  tx: Tx,
  of: { readonly volumeId?: string | undefined; readonly snapshotId?: string | undefined },
) => (await tx.one(unfinishedClones, [of.volumeId ?? null, of.snapshotId ?? null])).count

export interface Usage {
  readonly volumeId: string
  readonly usedBytes: number
  readonly snapshotBytes: number
}
export const recordUsages = (db: Db, hostId: string, all: readonly Usage[]) =>
  db.run(recordUsage, [
    hostId,
    all.map(one => one.volumeId),
    all.map(one => one.usedBytes),
    all.map(one => one.snapshotBytes),
  ])

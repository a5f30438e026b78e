import { type Sql, type Tx, statement } from '../../db/db.ts'

/** A volume that a VM needs before it starts. */
export interface NeededDisk {
  readonly vmId: string
  readonly attachmentId: string
  readonly volumeId: string
  readonly name: string
  readonly sizeMib: number
  /** Storage pool; empty: any pool. */
  readonly poolName: string
  readonly hostId: string | null
  /** True if only the host `hostId` can access the volume; false for a volume in a shared pool. */
  readonly bound: boolean
  readonly usable: boolean
  readonly readOnly: boolean
  /** Whether another VM holds the volume in a mode that excludes this VM. */
  readonly held: boolean
}

/** A volume in the desired state that is sent to the VM's host. */
export interface DesiredDisk {
  readonly volumeId: string
  readonly pool: string
  readonly sizeMib: number
  readonly generation: number
  readonly mountPoint: string
  readonly readOnly: boolean
  /** Encryption key, sealed with purpose `volume.key`; set only in encrypted pools. */
  readonly key: Buffer | null
  /**
   * If the VM starts from a VM snapshot and this volume is a clone of the volume copy in that snapshot: the id of the
   * volume that was copied. Else null.
   */
  readonly cloneOf: string | null
}

/** A volume that is assigned to a VM. It may be in the process of being detached. */
export interface HeldDisk {
  readonly volumeId: string
  readonly volumeName: string
  readonly projectId: string
  readonly attachmentId: string
  readonly want: 'present' | 'absent'
  readonly vmGeneration: number
  readonly observedState: string | null
  readonly observedError: string | null
}

const neededDisks = statement<NeededDisk>(
  'vms.neededDisks',
  `SELECT v.id AS "vmId", t.id AS "attachmentId", o.id AS "volumeId", o.name, o.size_mib AS "sizeMib", o.pool_name AS "poolName",
     o.host_id AS "hostId", o.bound, o.state IN ('creating', 'ready') AND o.want = 'present' AND o.moving_to IS NULL AS usable,
     t.access_mode = 1 AS "readOnly",
     EXISTS (SELECT FROM vm_disk k WHERE k.volume_id = o.id AND k.vm_id <> v.id
             AND (t.access_mode = 0 OR NOT k.read_only)) AS held
   FROM vm v JOIN volume_attachment t ON t.app_id = v.app_id JOIN volume o ON o.id = t.volume_id
   -- Runs only get volumes that have no writer: the others belong to the replicas.
   WHERE v.id = ANY($1::uuid[]) AND (v.run_id IS NULL OR t.access_mode = 1) AND t.want = 'attached' AND (t.deployment_id IS NULL OR t.deployment_id = v.deployment_id)
   ORDER BY o.id`,
)
// Volumes that the app's next VM will need. Volumes that other VMs hold count as free, because they are released before
// that VM starts.
const appDisks = statement<NeededDisk>(
  'vms.appDisks',
  `SELECT '' AS "vmId", t.id AS "attachmentId", o.id AS "volumeId", o.name, o.size_mib AS "sizeMib", o.pool_name AS "poolName",
     o.host_id AS "hostId", o.bound, o.state IN ('creating', 'ready') AND o.want = 'present' AS usable,
     t.access_mode = 1 AS "readOnly", false AS held
   FROM volume_attachment t JOIN volume o ON o.id = t.volume_id
   WHERE t.app_id = $1 AND t.deployment_id IS NULL AND t.want = 'attached' ORDER BY o.id`,
)
// Takes a volume for a VM. Locks the volume's row, as attaching, restoring, snapshotting and deleting a volume do. A VM
// that writes raises the volume's attach generation in the same transaction; VMs that only read share the current
// generation.
const takeVolume = statement<{ generation: number }>(
  'vms.takeVolume',
  `UPDATE volume SET attach_generation = attach_generation + CASE WHEN $2 THEN 0 ELSE 1 END,
     bound = CASE WHEN host_id IS NULL THEN $5 ELSE bound END, host_id = coalesce(host_id, $3),
     pool_name = CASE WHEN pool_name = '' THEN $4 ELSE pool_name END, updated_at = now()
   WHERE id = $1 AND want = 'present' AND state IN ('creating', 'ready') AND moving_to IS NULL
     AND (host_id IS NULL OR NOT bound OR host_id = $3)
   RETURNING attach_generation AS generation`,
)
const insertDisk = statement(
  'vms.insertDisk',
  `INSERT INTO vm_disk (vm_id, volume_id, attachment_id, generation, mount_point, read_only, vm_generation)
   SELECT v.id, t.volume_id, t.id, $3, t.mount_point, t.access_mode = 1, v.generation
   FROM vm v, volume_attachment t WHERE v.id = $1 AND t.id = $2 AND t.want = 'attached'
   ON CONFLICT DO NOTHING`,
)
const desiredDisks = statement<DesiredDisk>(
  'vms.desiredDisks',
  `SELECT k.volume_id AS "volumeId", o.pool_name AS pool, o.size_mib AS "sizeMib", k.generation,
     k.mount_point AS "mountPoint", k.read_only AS "readOnly", o.key,
     CASE WHEN v.from_renew AND o.from_snapshot_id = v.from_snapshot_id THEN o.from_volume_id END AS "cloneOf"
   FROM vm_disk k JOIN volume o ON o.id = k.volume_id JOIN vm v ON v.id = k.vm_id WHERE k.vm_id = $1 AND k.want = 'present' ORDER BY k.volume_id`,
)
const heldDisks = statement<HeldDisk>(
  'vms.heldDisks',
  `SELECT k.volume_id AS "volumeId", o.name AS "volumeName", o.project_id AS "projectId",
     k.attachment_id AS "attachmentId", k.want, k.vm_generation AS "vmGeneration", k.seen_state AS "observedState",
     k.seen_error AS "observedError"
   FROM vm_disk k JOIN vm v ON v.id = k.vm_id JOIN volume o ON o.id = k.volume_id
   WHERE k.vm_id = $1 AND v.host_id = $2 ORDER BY k.volume_id`,
)
const movingVm = statement('vms.isMoving', `SELECT vm_id FROM migration WHERE vm_id = $1 AND ended_at IS NULL`)
const noteDisk = statement(
  'vms.noteDisk',
  `UPDATE vm_disk SET seen_state = $3, seen_error = $4 WHERE vm_id = $1 AND volume_id = $2`,
)
const raiseGeneration = statement(
  'vms.raiseForDisks',
  `UPDATE vm SET generation = generation + 1 WHERE id = $1 AND want <> 'absent'`,
)
const markDisksDetached = statement<{ vmId: string }>(
  'vms.markDisksDetached',
  `UPDATE vm_disk k SET want = 'absent', vm_generation = v.generation + 1 FROM vm v
   WHERE k.attachment_id = $1 AND k.want = 'present' AND v.id = k.vm_id RETURNING k.vm_id AS "vmId"`,
)
const deleteDisk = statement('vms.deleteDisk', `DELETE FROM vm_disk WHERE vm_id = $1 AND volume_id = $2`)
const deleteDisksOfVm = statement<{ attachmentId: string }>(
  'vms.deleteDisks',
  `DELETE FROM vm_disk WHERE vm_id = $1 RETURNING attachment_id AS "attachmentId"`,
)
const deleteDetached = statement(
  'vms.deleteDetached',
  `DELETE FROM volume_attachment t WHERE t.id = ANY($1::uuid[]) AND t.want = 'detached'
     AND NOT EXISTS (SELECT FROM vm_disk k WHERE k.attachment_id = t.id)`,
)
const deleteOfDeployment = statement(
  'vms.deleteRuntimeAttachments',
  `DELETE FROM volume_attachment t WHERE t.deployment_id = $1
     AND NOT EXISTS (SELECT FROM vm_disk k WHERE k.attachment_id = t.id)`,
)

/** Returns the volumes that the app's next VM needs, in the order in which volumes are locked. */
export const neededByApp = (sql: Sql, appId: string) => sql.rows(appDisks, [appId])
/** Returns the volumes that each of the VMs needs before it starts, in the order in which volumes are locked. */
export const needed = (sql: Sql, vmIds: readonly string[]) => sql.rows(neededDisks, [vmIds])
/**
 * Takes the volume for a VM. Returns the attach generation; undefined if the volume is unavailable or the VM's host
 * cannot access it.
 */
export const take = async (
  tx: Tx,
  disk: { readonly volumeId: string; readonly readOnly: boolean },
  place: { readonly hostId: string; readonly pool: string; readonly bound: boolean },
) => (await tx.maybe(takeVolume, [disk.volumeId, disk.readOnly, place.hostId, place.pool, place.bound]))?.generation
/**
 * Records that the VM holds the volume. Returns false if another VM holds the volume, or if the volume was detached in
 * the meantime.
 */
export const insert = async (tx: Tx, vmId: string, attachmentId: string, generation: number) =>
  (await tx.run(insertDisk, [vmId, attachmentId, generation])) === 1
export const desiredFor = (sql: Sql, vmId: string) => sql.rows(desiredDisks, [vmId])
/** Returns the volumes that the VM holds; none if the VM is not on this host. */
export const held = (sql: Sql, vmId: string, hostId: string) => sql.rows(heldDisks, [vmId, hostId])
/** Returns whether the VM is migrating to another host. */
export const isMoving = async (tx: Tx, vmId: string) => (await tx.rows(movingVm, [vmId])).length > 0
export const note = (tx: Tx, vmId: string, volumeId: string, state: string | null, error: string | null) =>
  tx.run(noteDisk, [vmId, volumeId, state, error])
/** Raises the generation of the VM's desired state, so that its host receives the new list of volumes. */
export const raise = (tx: Tx, vmId: string) => tx.run(raiseGeneration, [vmId])
/** Marks the attachment's volume for detachment in all VMs. Returns the ids of the VMs that hold it. */
export const markDeleted = async (tx: Tx, attachmentId: string) =>
  (await tx.rows(markDisksDetached, [attachmentId])).map(row => row.vmId).toSorted()
export const drop = (tx: Tx, vmId: string, volumeId: string) => tx.run(deleteDisk, [vmId, volumeId])
/** Deletes the assignments of all volumes to the VM. Returns the ids of their attachments. */
export const dropAll = async (tx: Tx, vmId: string) =>
  (await tx.rows(deleteDisksOfVm, [vmId])).map(row => row.attachmentId)
/** Deletes those of the attachments that are to be detached and whose volume no VM holds any more. */
export const settle = (tx: Tx, attachmentIds: readonly string[]) => tx.run(deleteDetached, [attachmentIds])
export const settleDeployment = (tx: Tx, deploymentId: string) => tx.run(deleteOfDeployment, [deploymentId])

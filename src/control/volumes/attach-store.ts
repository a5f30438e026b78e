import { type Sql, type Tx, statement } from '../../db/db.ts'
import type { Volume } from './store.ts'

export interface Attachment {
  readonly id: string
  readonly volumeId: string
  readonly appId: string
  readonly appName: string
  /** The only deployment whose VMs mount the volume; null: all VMs of the app. */
  readonly deploymentId: string | null
  readonly mountPoint: string
  readonly accessMode: 0 | 1
  readonly want: 'attached' | 'detached'
  /**
   * Number of VMs that have the volume attached through this attachment, or are about to attach it. `trouble`: an
   * error that the host of one of them reported.
   */
  readonly vms: number
  /** Number of VMs whose guest has mounted the volume. */
  readonly attached: number
  readonly trouble: string | null
}

/** The fields of an app that are checked before a volume is attached to it. */
export interface AttachApp {
  readonly id: string
  readonly name: string
  readonly maxReplicas: number
  readonly autoscaling: boolean
}

const columns = `t.id, t.volume_id AS "volumeId", t.app_id AS "appId", a.name AS "appName",
  t.deployment_id AS "deploymentId", t.mount_point AS "mountPoint", t.access_mode AS "accessMode", t.want,
  (SELECT count(*)::int FROM vm_disk k WHERE k.attachment_id = t.id) AS vms,
  (SELECT count(*)::int FROM vm_disk k WHERE k.attachment_id = t.id AND k.seen_state = 'attached') AS attached,
  (SELECT max(k.seen_error) FROM vm_disk k WHERE k.attachment_id = t.id) AS trouble`
const joined = `FROM volume_attachment t JOIN app a ON a.id = t.app_id`

const ofVolume = statement<Attachment>(
  'volumes.attachments',
  `SELECT ${columns} ${joined} WHERE t.volume_id = $1 ORDER BY t.id`,
)
const ofApp = statement<Attachment>(
  'volumes.attachmentsOfApp',
  `SELECT ${columns} ${joined} WHERE t.app_id = $1 ORDER BY t.id`,
)
const volumesAndAttachments = statement<
  Pick<
    Volume,
    | 'id'
    | 'projectId'
    | 'name'
    | 'sizeMib'
    | 'grownMib'
    | 'poolName'
    | 'hostId'
    | 'state'
    | 'error'
    | 'createdAt'
    | 'updatedAt'
    | 'movingTo'
    | 'arrivedBy'
  > & {
    readonly attachments: readonly Pick<Attachment, 'accessMode' | 'appId' | 'appName' | 'mountPoint'>[]
  }
>(
  'volumes.list',
  `SELECT o.id, o.project_id AS "projectId", o.name, o.size_mib AS "sizeMib", o.grown_mib AS "grownMib", o.pool_name AS "poolName",
     o.host_id AS "hostId", o.state, o.error, o.created_at AS "createdAt", o.updated_at AS "updatedAt",
     o.moving_to AS "movingTo", o.arrived_by AS "arrivedBy",
     coalesce((SELECT jsonb_agg(jsonb_build_object('accessMode', t.access_mode, 'appId', a.id, 'appName', a.name,
        'mountPoint', t.mount_point) ORDER BY t.id) ${joined} WHERE t.volume_id = o.id), '[]'::jsonb) AS attachments
   FROM volume o WHERE o.project_id = $1 AND o.owner = 'user' AND o.want = 'present' ORDER BY o.id DESC`,
)
const insertAttachment = statement(
  'volumes.attach',
  `INSERT INTO volume_attachment (id, project_id, volume_id, app_id, deployment_id, mount_point, access_mode)
   VALUES ($1, $2, $3, $4, $5, $6, $7)`,
)
const changeSettings = statement(
  'volumes.settingsChanged',
  `UPDATE app SET settings_changed_at = clock_timestamp() WHERE id = $1`,
)
const markDetached = statement(
  'volumes.detach',
  `UPDATE volume_attachment SET want = 'detached' WHERE id = $1 AND want = 'attached'`,
)
const deleteAttachment = statement('volumes.deleteAttachment', `DELETE FROM volume_attachment WHERE id = $1`)
const lockAppById = statement<AttachApp>(
  'volumes.lockApp',
  `SELECT id, name, max_replicas AS "maxReplicas", autoscaling_enabled AS autoscaling FROM app
   WHERE project_id = $1 AND id = $2 AND want = 'live' AND ($3::text IS NULL OR owner = $3) FOR NO KEY UPDATE`,
)
const appExists = statement(
  'volumes.app',
  `SELECT id FROM app WHERE project_id = $1 AND id = $2 AND want = 'live' AND owner = 'user'`,
)
const writers = statement<{ volumeName: string }>(
  'volumes.writersOfApp',
  `SELECT o.name AS "volumeName" FROM volume_attachment t JOIN volume o ON o.id = t.volume_id
   WHERE t.app_id = $1 AND t.access_mode = 0 LIMIT 1`,
)

export const list = (sql: Sql, projectId: string) => sql.rows(volumesAndAttachments, [projectId])
export const attachmentsOf = (sql: Sql, volumeId: string) => sql.rows(ofVolume, [volumeId])
export const attachmentsOfApp = (sql: Sql, appId: string) => sql.rows(ofApp, [appId])
export const insert = (
  tx: Tx,
  t: Pick<Attachment, 'id' | 'volumeId' | 'appId' | 'deploymentId' | 'mountPoint' | 'accessMode'> & {
    readonly projectId: string
  },
) => tx.run(insertAttachment, [t.id, t.projectId, t.volumeId, t.appId, t.deploymentId, t.mountPoint, t.accessMode])
/**
 * Records that the app's settings have changed since its last deployment: its VMs mount the volume only from their
 * next start. The caller must hold the lock on the app.
 */
export const settingsChanged = (tx: Tx, appId: string) => tx.run(changeSettings, [appId])
export const markForDeletion = (tx: Tx, id: string) => tx.run(markDetached, [id])
export const remove = (tx: Tx, id: string) => tx.run(deleteAttachment, [id])
/** Locks the app until the transaction ends; with `owner` null the app may have any owner. */
export const lockApp = (tx: Tx, projectId: string, appId: string, owner: 'user' | null) =>
  tx.maybe(lockAppById, [projectId, appId, owner])
export const hasApp = async (sql: Sql, projectId: string, appId: string) =>
  (await sql.rows(appExists, [projectId, appId])).length === 1
/**
 * Returns the name of a volume that the app has attached read-write. Only one VM at a time can attach a volume
 * read-write.
 */
export const writerOf = async (sql: Sql, appId: string) => (await sql.maybe(writers, [appId]))?.volumeName

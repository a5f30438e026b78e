/** Database rows of VM sessions. */
import { type Db, type Sql, statement } from '../../db/db.ts'

export type Outcome = 'exited' | 'signaled' | 'lost'

export interface SessionRow {
  readonly id: string
  readonly projectId: string
  readonly deploymentId: string
  readonly vmId: string
  readonly accountId: string
  readonly program: string
  readonly tty: boolean
  readonly idleSeconds: number | null
  readonly openedAt: Date
  readonly seenAt: Date
  readonly endedAt: Date | null
  readonly outcome: Outcome | null
  readonly code: number | null
  readonly removed: boolean
}

const columns = `id, project_id AS "projectId", deployment_id AS "deploymentId", vm_id AS "vmId", account_id AS "accountId", program, tty,
  idle_seconds AS "idleSeconds", opened_at AS "openedAt", seen_at AS "seenAt", ended_at AS "endedAt", outcome, code, removed`

const insertSession = statement(
  'vmSessions.insert',
  `INSERT INTO vm_session (id, project_id, deployment_id, vm_id, account_id, program, tty, idle_seconds, request_hash)
   SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9
   WHERE (SELECT count(*) FROM vm_session WHERE project_id = $2 AND ended_at IS NULL) < $10
   ON CONFLICT (request_hash) DO NOTHING`,
)
const sessionById = statement<SessionRow>('vmSessions.byId', `SELECT ${columns} FROM vm_session WHERE id = $1`)
const sessionByKey = statement<SessionRow>(
  'vmSessions.byKey',
  `SELECT ${columns} FROM vm_session WHERE request_hash = $1`,
)
const sessionsOfDeployment = statement<SessionRow>(
  'vmSessions.ofDeployment',
  `SELECT ${columns} FROM vm_session WHERE deployment_id = $1 ORDER BY id DESC`,
)
const sessionsInGuests = statement<SessionRow>(
  'vmSessions.inGuests',
  `SELECT ${columns} FROM vm_session WHERE NOT removed AND opened_at < $1 ORDER BY vm_id`,
)
const deleteSession = statement('vmSessions.delete', `DELETE FROM vm_session WHERE id = $1`)
const deleteOld = statement('vmSessions.deleteOld', `DELETE FROM vm_session WHERE removed AND ended_at < $1`)
const setAttachment = statement(
  'vmSessions.attach',
  `UPDATE vm_session SET attachment = $2, seen_at = now() WHERE id = $1`,
)
const touchSession = statement('vmSessions.touch', `UPDATE vm_session SET seen_at = now() WHERE id = $1`)
const attachmentOf = statement<{ attachment: string | null }>(
  'vmSessions.attachment',
  `SELECT attachment FROM vm_session WHERE id = $1`,
)
const endSession = statement<SessionRow>(
  'vmSessions.end',
  `UPDATE vm_session SET ended_at = now(), outcome = $2, code = $3 WHERE id = $1 AND ended_at IS NULL RETURNING ${columns}`,
)
const markRemoved = statement('vmSessions.removed', `UPDATE vm_session SET removed = true WHERE id = $1`)

export type NewSession = Pick<
  SessionRow,
  'id' | 'projectId' | 'deploymentId' | 'vmId' | 'accountId' | 'program' | 'tty' | 'idleSeconds'
> & { readonly requestKey: Buffer | null }

/**
 * Inserts a session, or returns the session of an earlier request with the same key. The row is undefined if the
 * project already has the maximum number of open sessions (`most`).
 */
export async function insert(
  db: Db,
  s: NewSession,
  most: number,
): Promise<{ readonly row: SessionRow | undefined; readonly isNew: boolean }> {
  const inserted = await db.run(insertSession, [
    s.id,
    s.projectId,
    s.deploymentId,
    s.vmId,
    s.accountId,
    s.program,
    s.tty,
    s.idleSeconds,
    s.requestKey,
    most,
  ])
  const row = inserted === 1 || !s.requestKey ? await byId(db, s.id) : await db.maybe(sessionByKey, [s.requestKey])
  return { row, isNew: inserted === 1 }
}

export const byId = (sql: Sql, id: string) => sql.maybe(sessionById, [id])
export const ofDeployment = (sql: Sql, deploymentId: string) => sql.rows(sessionsOfDeployment, [deploymentId])
/**
 * Sessions that may still exist in a guest, ordered by VM. Excludes sessions opened after `openedBefore`, because
 * these may not have reached the guest yet.
 */
export const inGuests = (sql: Sql, openedBefore: Date) => sql.rows(sessionsInGuests, [openedBefore])
export const remove = (sql: Sql, id: string) => sql.run(deleteSession, [id])
export const removeOld = (sql: Sql, endedBefore: Date) => sql.run(deleteOld, [endedBefore])
export const attach = (sql: Sql, id: string, attachment: string) => sql.run(setAttachment, [id, attachment])
export const touch = (sql: Sql, id: string) => sql.run(touchSession, [id])
export const currentAttachment = async (sql: Sql, id: string) => (await sql.maybe(attachmentOf, [id]))?.attachment
/** Records the end of a session. Returns undefined if the end was already recorded. */
export const end = (sql: Sql, id: string, outcome: Outcome, code: number | null) =>
  sql.maybe(endSession, [id, outcome, code])
export const setRemoved = (sql: Sql, id: string) => sql.run(markRemoved, [id])

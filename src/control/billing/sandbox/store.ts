/** Database rows of the sandbox provider. The other billing code does not use them. */
import { type Db, type Sql, type Tx, statement } from '../../../db/db.ts'

export interface Session {
  readonly kind: 'checkout' | 'portal'
  readonly projectId: string
  readonly productId: string | null
  readonly usedAt: Date | null
}

export interface SandboxSubscription {
  readonly id: string
  readonly projectId: string
  readonly productId: string
  readonly status: 'active' | 'past_due' | 'canceled'
  readonly pays: boolean
  readonly periodStart: Date
  readonly periodEnd: Date
  readonly cancelAtPeriodEnd: boolean
  readonly modifiedAt: Date
}

const columns = `id, project_id AS "projectId", product_id AS "productId", status, pays, period_start AS "periodStart",
  period_end AS "periodEnd", cancel_at_period_end AS "cancelAtPeriodEnd", modified_at AS "modifiedAt"`

const addSession = statement(
  'sandbox.addSession',
  `INSERT INTO billing_sandbox_session (hash, kind, project_id, product_id, expires_at) VALUES ($1, $2, $3, $4, $5)`,
)
const session = statement<Session>(
  'sandbox.session',
  `SELECT kind, project_id AS "projectId", product_id AS "productId", used_at AS "usedAt" FROM billing_sandbox_session
   WHERE hash = $1 AND kind = $2 AND expires_at > $3`,
)
const use = statement(
  'sandbox.use',
  `UPDATE billing_sandbox_session SET used_at = $2 WHERE hash = $1 AND used_at IS NULL`,
)
const dropSessions = statement('sandbox.dropSessions', `DELETE FROM billing_sandbox_session WHERE expires_at < $1`)
const ofProject = statement<SandboxSubscription>(
  'sandbox.subscriptions',
  `SELECT ${columns} FROM billing_sandbox_subscription WHERE project_id = $1 ORDER BY id`,
)
const locked = statement<SandboxSubscription>(
  'sandbox.locked',
  `SELECT ${columns} FROM billing_sandbox_subscription WHERE id = $1 FOR UPDATE`,
)
const over = statement<{ id: string }>(
  'sandbox.over',
  `SELECT id FROM billing_sandbox_subscription WHERE status <> 'canceled' AND period_end <= $1 ORDER BY period_end LIMIT 100`,
)
const put = statement(
  'sandbox.put',
  `INSERT INTO billing_sandbox_subscription (id, project_id, product_id, status, pays, period_start, period_end,
     cancel_at_period_end, modified_at)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
   ON CONFLICT (id) DO UPDATE SET status = $4, pays = $5, period_start = $6, period_end = $7, cancel_at_period_end = $8,
     modified_at = $9`,
)
const addEvent = statement(
  'sandbox.addEvent',
  `INSERT INTO billing_sandbox_event (id, body, created_at) VALUES ($1, $2, $3)`,
)
const dueEvents = statement<{ id: string; body: string }>(
  'sandbox.dueEvents',
  `SELECT id, body FROM billing_sandbox_event WHERE delivered_at IS NULL ORDER BY created_at, id LIMIT 100`,
)
const delivered = statement(
  'sandbox.delivered',
  `UPDATE billing_sandbox_event SET delivered_at = $2 WHERE id = $1 AND delivered_at IS NULL`,
)
const dropEvents = statement('sandbox.dropEvents', `DELETE FROM billing_sandbox_event WHERE delivered_at < $1`)

export interface NewSession {
  readonly hash: Buffer
  readonly kind: Session['kind']
  readonly projectId: string
  readonly productId: string | null
  readonly expiresAt: Date
}
export const putSession = (sql: Sql, s: NewSession) =>
  sql.run(addSession, [s.hash, s.kind, s.projectId, s.productId, s.expiresAt])
export const findSession = (sql: Sql, hash: Buffer, kind: Session['kind'], now: Date) =>
  sql.maybe(session, [hash, kind, now])
/** Marks the checkout session as used. Returns false if it was already used. */
export const useSession = async (tx: Tx, hash: Buffer, now: Date) => (await tx.run(use, [hash, now])) === 1
export const forgetSessions = (db: Db, before: Date) => db.run(dropSessions, [before])

export const subscriptionsOf = (sql: Sql, projectId: string) => sql.rows(ofProject, [projectId])
export const lockSubscription = (tx: Tx, id: string) => tx.maybe(locked, [id])
/** Returns the ids of subscriptions that are not canceled and whose billing period has ended. */
export const endedPeriods = async (db: Db, now: Date) => (await db.rows(over, [now])).map(row => row.id)
export const putSubscription = (tx: Tx, s: SandboxSubscription) =>
  tx.run(put, [
    s.id,
    s.projectId,
    s.productId,
    s.status,
    s.pays,
    s.periodStart,
    s.periodEnd,
    s.cancelAtPeriodEnd,
    s.modifiedAt,
  ])

export const putEvent = (tx: Tx, id: string, body: string, now: Date) => tx.run(addEvent, [id, body, now])
export const undelivered = (db: Db) => db.rows(dueEvents)
export const markDelivered = (sql: Sql, id: string, now: Date) => sql.run(delivered, [id, now])
export const forgetEvents = (db: Db, before: Date) => db.run(dropEvents, [before])

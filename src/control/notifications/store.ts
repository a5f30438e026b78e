import { type Db, type Sql, type Tx, statement } from '../../db/db.ts'
import type { Window } from '../http/paging.ts'

export interface NotificationRow {
  readonly id: string
  readonly projectId: string
  readonly accountId: string
  readonly title: string
  readonly body: string
  readonly kind: string
  readonly entityName: string
  readonly resourceId: string
  readonly route: string
  readonly metadata: Record<string, unknown> | null
  readonly createdAt: Date
  readonly readAt: Date | null
}

const columns = `n.id, n.project_id AS "projectId", n.account_id AS "accountId", n.title, n.body, n.kind,
  n.entity_name AS "entityName", n.resource_id AS "resourceId", n.route, n.metadata, n.created_at AS "createdAt",
  n.read_at AS "readAt"`

const receivers = statement<{ id: string; emailNotifications: boolean; marketingEmails: boolean }>(
  'notifications.receivers',
  `SELECT a.id, a.email_notifications AS "emailNotifications", a.marketing_emails AS "marketingEmails"
   FROM project_member m JOIN account a ON a.id = m.account_id
   WHERE m.project_id = $1 AND ($2::uuid IS NULL OR a.id = $2) ORDER BY a.id`,
)
const insert = statement<NotificationRow>(
  'notifications.insert',
  `INSERT INTO notification AS n
     (id, project_id, account_id, title, body, kind, entity_name, resource_id, route, metadata, email_due_at)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING ${columns}`,
)
const listAll = statement<NotificationRow>(
  'notifications.list',
  `SELECT ${columns} FROM notification n WHERE n.account_id = $1 AND ($2::uuid IS NULL OR n.project_id = $2)
     AND n.id < $5::uuid ORDER BY n.id DESC LIMIT $3 OFFSET $4`,
)
const listUnread = statement<NotificationRow>(
  'notifications.listUnread',
  `SELECT ${columns} FROM notification n
   WHERE n.account_id = $1 AND ($2::uuid IS NULL OR n.project_id = $2) AND n.read_at IS NULL
     AND n.id < $5::uuid ORDER BY n.id DESC LIMIT $3 OFFSET $4`,
)
const countUnread = statement<{ count: number }>(
  'notifications.countUnread',
  `SELECT count(*) AS count FROM notification n
   WHERE n.account_id = $1 AND ($2::uuid IS NULL OR n.project_id = $2) AND n.read_at IS NULL`,
)
const markRead = statement<{ id: string }>(
  'notifications.markRead',
  `UPDATE notification SET read_at = coalesce(read_at, now())
   WHERE id = $1 AND account_id = $2 AND ($3::uuid IS NULL OR project_id = $3) RETURNING id`,
)
const markAllRead = statement(
  'notifications.markAllRead',
  `UPDATE notification SET read_at = now()
   WHERE account_id = $1 AND ($2::uuid IS NULL OR project_id = $2) AND read_at IS NULL`,
)

/**
 * The user who reads notifications. If the user's token is bound to a project, only notifications of that project are
 * visible.
 */
export interface Reader {
  readonly userId: string
  readonly boundProjectId: string | null
}

export const receiversIn = (tx: Tx, projectId: string, onlyAccountId: string | null) =>
  tx.rows(receivers, [projectId, onlyAccountId])
export const addNotification = (tx: Tx, n: Omit<NotificationRow, 'createdAt' | 'readAt'>, emailDueAt: Date | null) =>
  tx.one(insert, [
    n.id,
    n.projectId,
    n.accountId,
    n.title,
    n.body,
    n.kind,
    n.entityName,
    n.resourceId,
    n.route,
    n.metadata,
    emailDueAt,
  ])
export const notificationsOf = (db: Db, who: Reader, unreadOnly: boolean, { take, skip, before }: Window) =>
  db.rows(unreadOnly ? listUnread : listAll, [who.userId, who.boundProjectId, take, skip, before])
export const unreadCount = async (sql: Sql, who: Reader) =>
  (await sql.one(countUnread, [who.userId, who.boundProjectId])).count
/**
 * Marks a notification as read. Returns false if it does not exist or belongs to another account. Marking it again
 * keeps the time of the first call.
 */
export const read = async (tx: Tx, who: Reader, id: string) =>
  (await tx.maybe(markRead, [id, who.userId, who.boundProjectId])) !== undefined
export const readAll = (tx: Tx, who: Reader) => tx.run(markAllRead, [who.userId, who.boundProjectId])

/** The default project of an account, to which notifications about the account itself belong. */
const homeOf = statement<{ projectId: string | null; email: string }>(
  'notifications.homeOf',
  `SELECT default_project_id AS "projectId", email FROM account WHERE id = $1`,
)
/** Accounts that operate the installation (role Admin). */
const operators = statement<{ id: string }>(
  'notifications.operators',
  `SELECT id FROM account WHERE role = 'Admin' ORDER BY id`,
)
const everybody = statement<{ id: string }>(
  'notifications.everybody',
  `SELECT id FROM account WHERE default_project_id IS NOT NULL ORDER BY id`,
)
// One statement inserts the notifications of all accounts, because single inserts would keep the transaction open for
// too long.
const insertForAccounts = statement<NotificationRow>(
  'notifications.insertForAccounts',
  `INSERT INTO notification AS n
     (id, project_id, account_id, title, body, kind, entity_name, resource_id, route, email_due_at)
   SELECT t.id, a.default_project_id, a.id, $3, $4, $5, $6, '', $7, CASE WHEN a.marketing_emails THEN now() END
   FROM unnest($1::uuid[], $2::uuid[]) AS t (id, account_id) JOIN account a ON a.id = t.account_id
   WHERE a.default_project_id IS NOT NULL RETURNING ${columns}`,
)
/** Returns every account that has a default project, to which its notifications can belong. */
export const everyAccountId = async (tx: Tx) => (await tx.rows(everybody)).map(row => row.id)
/**
 * Inserts one notification per account, with an e-mail for accounts that want news. @param ids ids of the new
 * notifications, one per account
 */
export const addNews = (
  tx: Tx,
  ids: readonly string[],
  accountIds: readonly string[],
  n: Pick<NotificationRow, 'title' | 'body' | 'kind' | 'entityName' | 'route'>,
) => tx.rows(insertForAccounts, [ids, accountIds, n.title, n.body, n.kind, n.entityName, n.route])
export const operatorIds = async (tx: Tx) => (await tx.rows(operators)).map(row => row.id)
export const homeProject = (tx: Tx, accountId: string) => tx.maybe(homeOf, [accountId])

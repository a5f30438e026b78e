import { type Db, statement } from '../../db/db.ts'

export interface DueMail {
  readonly id: string
  readonly to: string
  readonly title: string
  readonly body: string
  readonly route: string
  readonly attempt: number
}

const dueMails = statement<DueMail>(
  'notifications.dueMails',
  `SELECT n.id, a.email AS to, n.title, n.body, n.route, n.email_attempt AS attempt
   FROM notification n JOIN account a ON a.id = n.account_id
   WHERE n.email_due_at <= $1 ORDER BY n.email_due_at LIMIT $2`,
)
const settle = statement(
  'notifications.settleMail',
  `UPDATE notification SET email_due_at = NULL, email_attempt = email_attempt + 1, email_outcome = $2
   WHERE id = $1 AND email_due_at IS NOT NULL`,
)
const postpone = statement(
  'notifications.postponeMail',
  `UPDATE notification SET email_due_at = $2, email_attempt = email_attempt + 1
   WHERE id = $1 AND email_due_at IS NOT NULL`,
)

export const due = (db: Db, now: Date, limit: number) => db.rows(dueMails, [now, limit])
export const settled = (db: Db, id: string, outcome: 'sent' | 'failed') => db.run(settle, [id, outcome])
export const postponed = (db: Db, id: string, until: Date) => db.run(postpone, [id, until])

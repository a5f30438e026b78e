import type { Tx } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import { publishEvent } from '../events/index.ts'
import { type EmailPolicy, type NotificationKind, notificationKinds } from './kinds.ts'
import { addNews, addNotification, everyAccountId, homeProject, operatorIds, receiversIn } from './store.ts'
import { viewNotification } from './view.ts'

export interface Notice {
  readonly projectId: string
  /** Notify only this member of the project; absent: every member. */
  readonly accountId?: string
  readonly kind: NotificationKind
  readonly title: string
  readonly body: string
  /** Display name of the resource that the notification is about. */
  readonly entityName: string
  readonly resourceId: string
  /** Path of the dashboard page to open. */
  readonly route: string
  readonly metadata?: Record<string, unknown>
}

/**
 * Writes, in the caller's transaction, one notification per recipient with its e-mail (sent by a sweep), and one event
 * `notification` per recipient. Streams must send that event only to the user in `data.user_id`.
 */
export async function notify(tx: Tx, notice: Notice): Promise<void> {
  const { projectId, accountId, ...content } = notice
  const policy = notificationKinds[notice.kind].email
  for (const receiver of await receiversIn(tx, projectId, accountId ?? null)) {
    const row = await addNotification(
      tx,
      { id: newId(), projectId, accountId: receiver.id, ...content, metadata: notice.metadata ?? null },
      wantsEmail(policy, receiver) ? new Date() : null,
    )
    publishEvent(tx, { projectId, kind: 'notification', data: { ...viewNotification(row) } })
  }
}

/** Returns whether a user may receive an event of a project. Notifications are only for their recipient. */
export function isFor(
  event: { readonly kind: string; readonly data: Record<string, unknown> },
  userId: string,
): boolean {
  return event.kind !== 'notification' || event.data['user_id'] === userId
}

export interface AccountNotice {
  readonly accountId: string
  readonly kind: NotificationKind
  readonly title: string
  readonly body: string
  readonly metadata?: Record<string, unknown>
}

/**
 * Notifies an account about the account itself. The notification belongs to the account's default project, but only the
 * account sees it. An account without a default project gets none.
 */
export async function notifyAccount(tx: Tx, notice: AccountNotice): Promise<void> {
  const home = await homeProject(tx, notice.accountId)
  if (!home || home.projectId === null) return
  const about = { entityName: home.email, resourceId: notice.accountId, route: '/account/security' }
  await notify(tx, { ...about, ...notice, projectId: home.projectId })
}

/**
 * Notifies all operators (accounts with the role Admin). Each notification belongs to the default project of its
 * operator, but only that operator sees it.
 */
export async function notifyOperators(tx: Tx, notice: Omit<Notice, 'projectId' | 'accountId'>): Promise<void> {
  for (const accountId of await operatorIds(tx)) {
    const home = await homeProject(tx, accountId)
    if (home?.projectId) await notify(tx, { ...notice, accountId, projectId: home.projectId })
  }
}

/**
 * Announces product news to all accounts; the e-mail goes to those with `marketing_emails`. @returns the number of
 * recipients
 */
export async function announceNews(tx: Tx, news: Pick<Notice, 'title' | 'body' | 'route'>): Promise<number> {
  const accountIds = await everyAccountId(tx)
  const ids = accountIds.map(() => newId())
  const rows = await addNews(tx, ids, accountIds, { ...news, kind: 'product.news', entityName: 'Mote' })
  for (const row of rows)
    publishEvent(tx, { projectId: row.projectId, kind: 'notification', data: { ...viewNotification(row) } })
  return rows.length
}

function wantsEmail(policy: EmailPolicy, to: { emailNotifications: boolean; marketingEmails: boolean }): boolean {
  switch (policy) {
    case 'always':
      return true
    case 'yes':
      return to.emailNotifications
    case 'marketing':
      return to.marketingEmails
    case 'no':
      return false
  }
}

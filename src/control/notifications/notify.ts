import type { Tx } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import { publishEvent } from '../events/index.ts'
import { type EmailPolicy, type NotificationKind, notificationKinds } from './kinds.ts'
import { addNews, addNotification, everyAccountId, homeProject, operatorIds, receiversIn } from './store.ts'
import { viewNotification } from './view.ts'

export interface Notice {
  readonly projectId: string
  /** Only this member; absent: every member of the project. */
  readonly accountId?: string
  readonly kind: NotificationKind
  readonly title: string
  readonly body: string
  /** What it is about, as people call it. */
  readonly entityName: string
  readonly resourceId: string
  /** Path in the dashboard. */
  readonly route: string
  readonly metadata?: Record<string, unknown>
}

/**
 * In the caller's transaction: one row per receiver, the e-mail that goes with it (sent by a sweep), and an event
 * `notification` whose data is the notification. Streams must show it only to the user in `data.user_id`.
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

/** Whether an event of a project may be shown to this user: notifications are for their receiver alone. */
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

/** About the account itself: filed under its default project, seen by nobody else. An account without one gets none. */
export async function notifyAccount(tx: Tx, notice: AccountNotice): Promise<void> {
  const home = await homeProject(tx, notice.accountId)
  if (!home || home.projectId === null) return
  const about = { entityName: home.email, resourceId: notice.accountId, route: '/account/security' }
  await notify(tx, { ...about, ...notice, projectId: home.projectId })
}

/** To everybody who operates the installation (role Admin): filed under the default project of each, seen by nobody else. */
export async function notifyOperators(tx: Tx, notice: Omit<Notice, 'projectId' | 'accountId'>): Promise<void> {
  for (const accountId of await operatorIds(tx)) {
    const home = await homeProject(tx, accountId)
    if (home?.projectId) await notify(tx, { ...notice, accountId, projectId: home.projectId })
  }
}

/** News of the product, to everybody; the e-mail goes to those who want `marketing_emails`. @returns how many got it */
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

import type { Deps } from '../base/deps.ts'
import { notFound } from '../http/errors.ts'
import { feature } from '../http/operation.ts'
import { ListPart, partOf, windowOf } from '../http/paging.ts'
import { notificationOperations } from './schema.ts'
import { announceNews } from './notify.ts'
import { notificationsOf, read, readAll, unreadCount } from './store.ts'
import { viewNotification } from './view.ts'

export const notificationsFeature = ({ db }: Pick<Deps, 'db'>) =>
  feature(notificationOperations, {
    listNotifications: {
      read: async ({ caller, query, page }) => {
        const [rows, unread] = await Promise.all([
          notificationsOf(db, caller, query.unread_only ?? false, windowOf(page)),
          unreadCount(db, caller),
        ])
        const { answer: shown, next } = partOf(page, rows)
        const answer = {
          notifications: shown.map(viewNotification),
          unread_count: unread,
          has_more: next !== undefined,
          next_offset: page.offset + shown.length,
        }
        return new ListPart(answer, next)
      },
    },
    markNotificationRead: {
      write:
        async ({ caller, params }) =>
        async tx => {
          if (!(await read(tx, caller, params.notification_id))) throw notFound()
          return { status: 'read' as const }
        },
    },
    createAnnouncement: {
      write:
        async ({ body: { title, body, route }, audit }) =>
        async tx => {
          const recipients = await announceNews(tx, { title, body, route: route ?? '/' })
          audit({ action: 'announcement.create', resourceType: 'announcement', details: { title, recipients } })
          return { status: 'sent' as const, recipients }
        },
    },
    markAllNotificationsRead: {
      write:
        async ({ caller }) =>
        async tx => {
          await readAll(tx, caller)
          return { status: 'read' as const }
        },
    },
  })

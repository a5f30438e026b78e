import type { Deps } from '../deps.ts'
import { notFound } from '../http/errors.ts'
import { feature } from '../http/operation.ts'
import { pageOf } from '../http/paging.ts'
import { notificationOperations } from './schema.ts'
import { notificationsOf, read, readAll, unreadCount } from './store.ts'
import { viewNotification } from './view.ts'

export const notificationsFeature = ({ db }: Pick<Deps, 'db'>) =>
  feature(notificationOperations, {
    listNotifications: {
      read: async ({ caller, query }) => {
        const { limit, offset } = pageOf(query)
        const [rows, unread] = await Promise.all([
          notificationsOf(db, caller, query.unread_only ?? false, limit + 1, offset),
          unreadCount(db, caller),
        ])
        const page = rows.slice(0, limit)
        return {
          notifications: page.map(viewNotification),
          unread_count: unread,
          has_more: rows.length > limit,
          next_offset: offset + page.length,
        }
      },
    },
    markNotificationRead: {
      write:
        async ({ caller, params }) =>
        async tx => {
          if (!(await read(tx, caller, params.notification_id))) throw notFound()
          return { status: 'read' }
        },
    },
    markAllNotificationsRead: {
      write:
        async ({ caller }) =>
        async tx => {
          await readAll(tx, caller)
          return { status: 'read' }
        },
    },
  })

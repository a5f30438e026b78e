import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import {
  Acknowledgement,
  bool,
  dateTime,
  displayName,
  freeForm,
  int64,
  list,
  maybe,
  resource,
  text,
  uuid,
} from '../http/types.ts'

export const Notification = resource('Notification', {
  id: uuid(),
  tenant_id: uuid(),
  user_id: uuid(),
  title: text(),
  body: text(),
  kind: text({ description: 'For example `deployment.failed`.' }),
  entity_name: text(),
  resource_id: text(),
  route: text({ description: 'Where the dashboard shows it.' }),
  metadata: freeForm(),
  is_read: bool(),
  created_at: dateTime(),
  read_at: Type.Optional(dateTime({ description: 'Absent while it is unread.' })),
})
export type Notification = Static<typeof Notification>

export const NotificationList = resource('NotificationList', {
  notifications: list(Notification),
  unread_count: int64(),
  has_more: bool(),
  next_offset: int64(),
})
export type NotificationList = Static<typeof NotificationList>

const shared = { tag: 'Notifications', auth: 'bearer', project: 'none' } as const

export const notificationOperations = operations({
  listNotifications: {
    method: 'GET',
    path: '/v1/notifications',
    summary: 'Notifications of the account, newest first',
    ...shared,
    scope: 'read',
    query: Type.Object({ unread_only: Type.Optional(bool({ default: false })) }),
    list: { order: ['-id'], within: 'notifications', defaultLimit: 50 },
    answer: NotificationList,
    items: [
      {
        id: 'getNotification',
        path: '/v1/notifications/{notification_id}',
        by: 'id',
        summary: 'One notification',
        within: 'notifications',
      },
    ],
  },
  markNotificationRead: {
    method: 'POST',
    path: '/v1/notifications/{notification_id}/read',
    summary: 'Marks one notification as read',
    ...shared,
    scope: 'write',
    params: Type.Object({ notification_id: uuid() }),
    answer: Acknowledgement,
    unaudited: true,
  },
  createAnnouncement: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/admin/announcements',
    summary: 'Sends news about the product to every account; by e-mail to those with `marketing_emails`',
    ...shared,
    scope: 'admin',
    adminOnly: true,
    addition: true,
    body: resource('CreateAnnouncementRequest', {
      title: displayName(),
      body: text({ minLength: 1, maxLength: 4000 }),
      route: maybe(
        text({
          maxLength: 300,
          pattern: '^/',
          'x-mote-pattern': 'a "/" at the start',
          description: 'Path in the dashboard.',
        }),
      ),
    }),
    answer: resource('Announcement', { status: text(), recipients: int64() }),
  },
  markAllNotificationsRead: {
    method: 'POST',
    path: '/v1/notifications/read-all',
    summary: 'Marks every notification as read',
    ...shared,
    scope: 'write',
    answer: Acknowledgement,
    unaudited: true,
  },
})

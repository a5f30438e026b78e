import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, bool, displayName, int64, list, maybe, oneOf, resource, text, uuid } from '../http/types.ts'
import { Notification } from '../events/schema.ts'

export const NotificationList = resource(
  'NotificationList',
  {
    notifications: list(Notification, { description: 'Notifications of this page, newest first.' }),
    unread_count: int64({
      description: 'Number of unread notifications on all pages, regardless of the filter.',
      examples: [3],
    }),
    has_more: bool({ description: 'Whether another page with older notifications follows.', examples: [false] }),
    next_offset: int64({ description: 'Value of `offset` for the next page.', examples: [20] }),
  },
  { description: 'A page of notifications, with counts.' },
)
export type NotificationList = Static<typeof NotificationList>

const Announcement = resource(
  'Announcement',
  {
    status: oneOf(['sent'], { description: 'Always `sent`: the notifications are stored, and e-mails follow.' }),
    recipients: int64({ description: 'Number of accounts that received the notification.', examples: [42] }),
  },
  { description: 'Result of sending an announcement.' },
)

const shared = { tag: 'Notifications', auth: 'bearer', project: 'none' } as const

export const notificationOperations = operations({
  listNotifications: {
    method: 'GET',
    path: '/v1/notifications',
    summary: 'List notifications',
    description:
      'Lists the notifications of your account, newest first, with the number of unread ones. For a token that is bound to a project, the list contains only notifications of that project.',
    ...shared,
    scope: 'read',
    query: Type.Object({
      unread_only: Type.Optional(
        bool({ default: false, description: 'Whether to return only notifications that are not marked as read.' }),
      ),
    }),
    list: { order: ['-id'], within: 'notifications', defaultLimit: 50 },
    answer: NotificationList,
    items: [
      {
        id: 'getNotification',
        path: '/v1/notifications/{notification_id}',
        by: 'id',
        summary: 'Get a notification',
        description: 'Returns one notification of your account. This does not mark it as read.',
        within: 'notifications',
      },
    ],
  },
  markNotificationRead: {
    method: 'POST',
    path: '/v1/notifications/{notification_id}/read',
    summary: 'Mark a notification as read',
    description: 'Sets `read_at` to the current time. If the notification is already read, `read_at` stays unchanged.',
    ...shared,
    scope: 'write',
    params: Type.Object({
      notification_id: uuid({ description: 'Id of the notification, from the list of notifications.' }),
    }),
    answer: acknowledgement('read'),
    unaudited: true,
  },
  createAnnouncement: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/admin/announcements',
    summary: 'Send an announcement',
    description:
      'Sends a notification of the kind `product.news` to every account that has a project, and an e-mail to those with `marketing_emails`. It cannot be withdrawn. Only for administrators.',
    ...shared,
    scope: 'admin',
    adminOnly: true,
    addition: true,
    body: resource(
      'CreateAnnouncementRequest',
      {
        title: displayName({
          description: 'Title of the notification and subject of the e-mail.',
          examples: ['Databases can be branched'],
        }),
        body: text({
          minLength: 1,
          maxLength: 4000,
          description: 'Plain text of the notification and the e-mail.',
          examples: ['A branch is a writable copy of a database that is made within seconds.'],
        }),
        route: maybe(
          text({
            maxLength: 300,
            pattern: '^/',
            'x-mote-pattern': 'a "/" at the start',
            description: 'Path of the dashboard page that the notification opens. Default: the start page.',
            examples: ['/databases'],
          }),
        ),
      },
      { description: 'Text of an announcement.' },
    ),
    answer: Announcement,
  },
  markAllNotificationsRead: {
    method: 'POST',
    path: '/v1/notifications/read-all',
    summary: 'Mark all notifications as read',
    description:
      'Marks every unread notification of your account as read; with a token that is bound to a project, those of that project.',
    ...shared,
    scope: 'write',
    answer: acknowledgement('read'),
    unaudited: true,
  },
})

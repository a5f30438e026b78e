import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import {
  acknowledgement,
  bool,
  dateTime,
  displayName,
  freeForm,
  int64,
  list,
  maybe,
  oneOf,
  resource,
  text,
  uuid,
} from '../http/types.ts'

export const Notification = resource(
  'Notification',
  {
    id: uuid({ description: 'Identifies the notification when it is marked as read.' }),
    tenant_id: uuid({
      description: 'Project that it is about; for notifications about an account, its default project.',
    }),
    user_id: uuid({ description: 'Account that receives it. Nobody else sees it.' }),
    title: text({ description: 'What happened, in a few words.', examples: ['Deployment of shop failed'] }),
    body: text({
      description: 'What it means and what to do, in plain text.',
      examples: ['The health check at / was not answered in time. What served before goes on serving.'],
    }),
    kind: text({
      description:
        'What happened, for programs, such as `deployment.failed` or `security.new_login`. New kinds may be added.',
      examples: ['deployment.failed'],
    }),
    entity_name: text({ description: 'What it is about, as people call it, such as an app.', examples: ['shop'] }),
    resource_id: text({
      description: 'Id of what it is about; empty for announcements.',
      examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
    }),
    route: text({
      description: 'Path in the dashboard that shows more.',
      examples: ['/apps/shop/deployments/job-4f9c2a7be1d06358'],
    }),
    metadata: freeForm({
      description:
        'Object with more about it, depending on the kind, such as the address of a sign-in; null if nothing.',
      examples: [null],
    }),
    is_read: bool({ description: 'Whether it was marked as read.' }),
    created_at: dateTime({ description: 'When it happened.' }),
    read_at: Type.Optional(dateTime({ description: 'When it was first marked as read. Absent while it is unread.' })),
  },
  { description: 'Message to one account about something that happened.' },
)
export type Notification = Static<typeof Notification>

export const NotificationList = resource(
  'NotificationList',
  {
    notifications: list(Notification, { description: 'Notifications of this page, newest first.' }),
    unread_count: int64({ description: 'Unread notifications on all pages, whatever the filter.', examples: [3] }),
    has_more: bool({ description: 'Whether older ones follow on another page.', examples: [false] }),
    next_offset: int64({ description: '`offset` of the next page.', examples: [20] }),
  },
  { description: 'Page of notifications, with counts.' },
)
export type NotificationList = Static<typeof NotificationList>

const Announcement = resource(
  'Announcement',
  {
    status: oneOf(['sent'], { description: 'The notifications are stored; e-mails follow.' }),
    recipients: int64({ description: 'Accounts that received the notification.', examples: [42] }),
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
      'Lists the notifications of your account, newest first, with the number of unread ones. A token that is bound to a project sees those of that project only.',
    ...shared,
    scope: 'read',
    query: Type.Object({
      unread_only: Type.Optional(
        bool({ default: false, description: 'Only notifications that are not marked as read.' }),
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
        description: 'Returns one notification of your account. It does not become read by that.',
        within: 'notifications',
      },
    ],
  },
  markNotificationRead: {
    method: 'POST',
    path: '/v1/notifications/{notification_id}/read',
    summary: 'Mark a notification as read',
    description: 'Sets `read_at` to now. Marking it again keeps the first time.',
    ...shared,
    scope: 'write',
    params: Type.Object({ notification_id: uuid({ description: 'Id of the notification, as listed.' }) }),
    answer: acknowledgement('read'),
    unaudited: true,
  },
  createAnnouncement: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/admin/announcements',
    summary: 'Send an announcement',
    description:
      'Sends a notification of the kind `product.news` to every account that has a project, and an e-mail to those with `marketing_emails`. It cannot be taken back. Only for administrators.',
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
            description: 'Path in the dashboard that the notification leads to. Default: its start page.',
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

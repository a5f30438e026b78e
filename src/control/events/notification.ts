/** A notification as sent by the API and event streams. */
import { type Static, Type } from 'typebox'
import { bool, dateTime, freeForm, resource, text, uuid } from '../http/types.ts'

export const Notification = resource(
  'Notification',
  {
    id: uuid({ description: 'Id of the notification, needed to mark it as read.' }),
    tenant_id: uuid({
      description:
        'Id of the project that the notification concerns; for notifications about an account, its default project.',
    }),
    user_id: uuid({ description: 'Id of the account that received the notification. Only this account can read it.' }),
    title: text({
      description: 'Title of the notification: what happened, in a few words.',
      examples: ['Deployment of shop failed'],
    }),
    body: text({
      description: 'Body of the notification in plain text: what the event means and what to do.',
      examples: ['The app did not pass its health check on port 8080 within 60 s. The previous version keeps serving.'],
    }),
    kind: text({
      description:
        'Kind of event, for programs, such as `deployment.failed` or `security.new_login`. New kinds may be added.',
      examples: ['deployment.failed'],
    }),
    entity_name: text({ description: 'Name of the affected resource, e.g. an app.', examples: ['shop'] }),
    resource_id: text({
      description: 'Id of the affected resource; empty for announcements.',
      examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
    }),
    route: text({
      description: 'Path of the dashboard page with more information.',
      examples: ['/apps/shop/deployments/job-4f9c2a7be1d06358'],
    }),
    metadata: freeForm({
      description:
        'Object with further data, which depends on the kind, such as the IP address of a sign-in; null if there is none.',
      examples: [null],
    }),
    is_read: bool({ description: 'Whether the notification was marked as read.' }),
    created_at: dateTime({ description: 'When the event happened.' }),
    read_at: Type.Optional(
      dateTime({ description: 'When the notification was first marked as read. Absent while it is unread.' }),
    ),
  },
  { description: 'A message to one account about an event.' },
)
export type Notification = Static<typeof Notification>

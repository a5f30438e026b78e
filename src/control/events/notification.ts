/** A notification as sent by the API and event streams. */
import { type Static, Type } from 'typebox'
import { bool, dateTime, freeForm, resource, text, uuid } from '../http/types.ts'

export const Notification = resource(
  'Notification',
  {
    id: uuid({ description: 'Identifies the notification when it is marked as read.' }),
    tenant_id: uuid({
      description: 'Project of the event; for notifications about an account, its default project.',
    }),
    user_id: uuid({ description: 'Account that receives it. Only this account can read it.' }),
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
    entity_name: text({ description: 'Name of the affected resource, e.g. an app.', examples: ['shop'] }),
    resource_id: text({
      description: 'Id of the affected resource; empty for announcements.',
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

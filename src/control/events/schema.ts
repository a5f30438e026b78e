/**
 * The events of a project by kind, in the form in which streams send them; without the envelope also the data for
 * `publishEvent`.
 */
import type { Static } from 'typebox'
import { deploymentStatuses } from '../../contract/deployments.ts'
import type { EventTable } from '../http/operation.ts'
import { dateTime, int64, nullable, oneOf, resource, text, uuid } from '../http/types.ts'
import { Notification } from './notification.ts'

export { Notification }

/** Properties that are added to the data of every event. */
const envelope = {
  at: dateTime({ description: 'When it happened.' }),
  app_id: nullable(uuid({ description: 'The app that it happened to; null: no app.' })),
  deployment_id: nullable(uuid({ description: 'The deployment that it happened to; null: no deployment.' })),
}

const DeploymentStatusEvent = resource(
  'DeploymentStatusEvent',
  {
    ...envelope,
    deployment_id: uuid({ description: 'The deployment whose status has changed.' }),
    job_id: text({ description: 'The same deployment, as paths name it.', examples: ['job-3f6d0c4f2a1097e0'] }),
    app_name: text({ description: 'Name of its app.', examples: ['web'] }),
    status: oneOf(deploymentStatuses, { description: 'The new status.', examples: ['running'] }),
    error_message: nullable(
      text({
        description: 'Why it has failed; null: it has not.',
        examples: [null, 'The program did not answer on port 8080.'],
      }),
    ),
  },
  { description: 'The status of a deployment has changed.' },
)

const NotificationEvent = resource(
  'NotificationEvent',
  {
    ...Notification.properties,
    ...envelope,
  },
  { description: 'A notification for the user who reads the stream.' },
)

const SecurityRuleEvent = resource(
  'SecurityRuleEvent',
  {
    ...envelope,
    rule_id: uuid({ description: 'The rule.' }),
    app_name: text({ description: 'The app that the rule applies to.', examples: ['web'] }),
    version: int64({ description: 'Version of the rules of the app; grows with each change.', examples: [7] }),
  },
  { description: 'A network rule of an app was created or deleted. Hosts enforce the new version a moment later.' },
)

const DomainEvent = resource(
  'DomainEvent',
  {
    ...envelope,
    domain: text({ description: 'The name, in ASCII.', examples: ['www.example.com'] }),
    message: nullable(
      text({
        description: 'Problem found by the last DNS check; null: none.',
        examples: [null, 'There is no TXT record _mote.www.example.com.'],
      }),
    ),
  },
  { description: 'The name servers of a domain now prove, or no longer prove, that it belongs to the app.' },
)

/** Reports a gap between two events of a stream. */
export const EventGap = resource(
  'EventGap',
  {
    after: int64({ description: 'Id of the last event that was sent before the gap.', examples: [1042] }),
    first_kept: int64({ description: 'Id of the oldest event that still exists.', examples: [2310] }),
    at: dateTime({ description: 'When the gap was noticed.' }),
  },
  { description: 'Events were lost because they are no longer kept. Read the resources again.' },
)

export const projectEventTable = {
  'deployment.status': DeploymentStatusEvent,
  notification: NotificationEvent,
  'security_rule.created': SecurityRuleEvent,
  'security_rule.deleted': SecurityRuleEvent,
  'domain.verified': DomainEvent,
  'domain.lost': DomainEvent,
} as const satisfies EventTable

type Table = typeof projectEventTable
export type ProjectEventKind = keyof Table
export const projectEventKinds = Object.keys(projectEventTable) as ProjectEventKind[]

/** Data of an event, as its publisher gives it. The envelope is added when the event is sent. */
export type ProjectEventData<Kind extends ProjectEventKind> = Omit<Static<Table[Kind]>, keyof typeof envelope>

/**
 * The events of a project by kind, in the form in which streams send them. Without the properties in `envelope`, they
 * are also the data for `publishEvent`.
 */
import type { Static } from 'typebox'
import { deploymentStatuses } from '../../contract/deployments.ts'
import type { EventTable } from '../http/operation.ts'
import { dateTime, int64, nullable, oneOf, resource, text, uuid } from '../http/types.ts'
import { Notification } from './notification.ts'

export { Notification }

/** Properties that every event has in addition to its own data. */
const envelope = {
  at: dateTime({ description: 'When the event happened.' }),
  app_id: nullable(uuid({ description: 'Id of the app that the event concerns; null if it concerns none.' })),
  deployment_id: nullable(
    uuid({ description: 'Id of the deployment that the event concerns; null if it concerns none.' }),
  ),
}

const DeploymentStatusEvent = resource(
  'DeploymentStatusEvent',
  {
    ...envelope,
    deployment_id: uuid({ description: 'UUID of the deployment whose status has changed.' }),
    job_id: text({ description: 'Short id of the deployment, as used in paths.', examples: ['job-3f6d0c4f2a1097e0'] }),
    app_name: text({ description: 'Name of the app that the deployment belongs to.', examples: ['web'] }),
    status: oneOf(deploymentStatuses, { description: 'New status of the deployment.', examples: ['running'] }),
    error_message: nullable(
      text({
        description: 'Why the deployment failed; null if it did not fail.',
        examples: [null, 'The app did not pass its health check on port 8080 within 60 s.'],
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
  { description: 'A notification to the user who opened the stream.' },
)

const SecurityRuleEvent = resource(
  'SecurityRuleEvent',
  {
    ...envelope,
    rule_id: uuid({ description: 'Id of the security rule.' }),
    app_name: text({ description: 'Name of the app that the rule applies to.', examples: ['web'] }),
    version: int64({ description: "Version of the app's rules; increases with each change.", examples: [7] }),
  },
  { description: 'A security rule of an app was created or deleted. Hosts enforce the new version a moment later.' },
)

const DomainEvent = resource(
  'DomainEvent',
  {
    ...envelope,
    domain: text({ description: 'Host name of the domain, in ASCII.', examples: ['www.example.com'] }),
    message: nullable(
      text({
        description: 'Why the last DNS lookup did not verify the domain; null if it did.',
        examples: [null, 'There is no TXT record _mote.www.example.com.'],
      }),
    ),
  },
  { description: 'The DNS verification of a custom domain has succeeded, or its TXT record is gone.' },
)

/** Reports to the reader of a stream that events between two others are missing. */
export const EventGap = resource(
  'EventGap',
  {
    after: int64({ description: 'Id of the last event before the gap.', examples: [1042] }),
    first_kept: int64({ description: 'Id of the oldest event that is still stored.', examples: [2310] }),
    at: dateTime({ description: 'When the gap was noticed.' }),
  },
  { description: 'Events after the requested one are no longer stored and were skipped. Read the resources again.' },
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

/** Data of an event, as passed to `publishEvent`. The properties in `envelope` are added when the event is sent. */
export type ProjectEventData<Kind extends ProjectEventKind> = Omit<Static<Table[Kind]>, keyof typeof envelope>

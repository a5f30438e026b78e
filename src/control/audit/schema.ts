import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { dateTime, freeForm, int64, list, maybe, nullable, oneOf, resource, text, uuid } from '../http/types.ts'

export const AuditLog = resource(
  'AuditLog',
  {
    id: uuid({ description: 'UUID of the entry. A later entry has a larger UUID.' }),
    user_id: uuid({
      description:
        'Id of the account that acted; all zeros if there is none, as for a sign-in with an unknown address or a change by the system.',
    }),
    action: text({
      description: 'Name of the action: the kind of resource and a verb.',
      examples: ['app.create'],
    }),
    actor: nullable(
      text({
        description: 'Name or e-mail address of the account; null for the system and for a deleted account.',
        examples: ['Ada Lovelace'],
      }),
    ),
    summary: text({
      description:
        'Description of the action, at most 300 characters. It completes a sentence that begins with the name of the actor.',
      examples: ['created the app shop'],
    }),
    resource_type: text({ description: 'Kind of resource that `resource_id` refers to.', examples: ['app'] }),
    details: freeForm({
      description: 'Further data about the action; the members depend on the action. Contains no secrets.',
      examples: [{ name: 'shop' }],
    }),
    created_at: dateTime({ description: 'When the action happened.' }),
    ip_address: maybe(
      text({ description: 'IP address of the client; null for actions of the system.', examples: ['203.0.113.7'] }),
    ),
    resource_id: maybe(
      text({
        description: 'Id of the resource, usually a UUID; null if the action does not concern a single resource.',
        examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
      }),
    ),
  },
  { description: 'Entry of the audit log: an action with its actor, time and origin.' },
)
export type AuditLog = Static<typeof AuditLog>

export const AuditLogList = resource(
  'AuditLogList',
  {
    items: list(AuditLog, { description: 'Entries of this page, newest first.' }),
    total: int64({ description: 'Number of entries on all pages that match the filters.', examples: [128] }),
  },
  { description: 'Page of the audit log.' },
)
export type AuditLogList = Static<typeof AuditLogList>

export const auditOperations = operations({
  listAuditLogs: {
    method: 'GET',
    path: '/v1/audit-logs',
    tag: 'Audit',
    summary: 'List audit log entries',
    description:
      'Lists changes in the project and, unless the token is bound to a project, changes and refused sign-ins of your own account, newest first. Entries cannot be changed or deleted by users; the operator configures how long they are retained.',
    auth: 'bearer',
    scope: 'read',
    project: 'selected',
    query: Type.Object({
      action: Type.Optional(
        text({
          maxLength: 100,
          description: 'Returns only entries with exactly this action.',
          examples: ['app.create'],
        }),
      ),
      resource_type: Type.Optional(
        text({ maxLength: 100, description: 'Returns only entries about this kind of resource.', examples: ['app'] }),
      ),
      scope: Type.Optional(
        oneOf(['all', 'project'], {
          description:
            'Which entries to return. `project`: only entries of the project, without sign-ins and other entries of your own account. Default: `all`.',
          examples: ['project'],
        }),
      ),
    }),
    list: { order: ['-id'], within: 'items', defaultLimit: 50 },
    answer: AuditLogList,
  },
})

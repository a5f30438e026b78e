import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { dateTime, freeForm, int64, list, maybe, resource, text, uuid } from '../http/types.ts'

export const AuditLog = resource('AuditLog', {
  id: uuid(),
  user_id: uuid(),
  action: text({ description: 'For example `app.created`.' }),
  resource_type: text({ description: 'For example `app`.' }),
  details: freeForm({ description: 'Never holds secrets.' }),
  created_at: dateTime(),
  ip_address: maybe(text()),
  resource_id: maybe(text()),
})
export type AuditLog = Static<typeof AuditLog>

export const AuditLogList = resource('AuditLogList', {
  items: list(AuditLog),
  total: int64({ description: 'How many rows match the filter on all pages.' }),
})
export type AuditLogList = Static<typeof AuditLogList>

export const auditOperations = operations({
  listAuditLogs: {
    method: 'GET',
    path: '/v1/audit-logs',
    tag: 'Audit',
    summary: 'Who changed what, newest first',
    auth: 'bearer',
    scope: 'read',
    project: 'selected',
    query: Type.Object({
      action: Type.Optional(text({ maxLength: 100 })),
      resource_type: Type.Optional(text({ maxLength: 100 })),
    }),
    list: { order: ['-id'], within: 'items', defaultLimit: 50 },
    answer: AuditLogList,
  },
})

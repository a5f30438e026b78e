import type { AuditLog } from './schema.ts'
import type { AuditRow } from './store.ts'
import { inWordsOf } from './words.ts'

export const viewAudit = (row: AuditRow): AuditLog => ({
  id: row.id,
  user_id: row.userId,
  actor: row.actor,
  action: row.action,
  summary: inWordsOf(row.action, row.details),
  resource_type: row.resourceType,
  details: row.details,
  created_at: row.createdAt.toISOString(),
  ip_address: row.ipAddress,
  resource_id: row.resourceId,
})

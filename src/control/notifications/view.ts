import type { Notification } from '../events/schema.ts'
import type { NotificationRow } from './store.ts'

export const viewNotification = (n: NotificationRow): Notification => ({
  id: n.id,
  tenant_id: n.projectId,
  user_id: n.accountId,
  title: n.title,
  body: n.body,
  kind: n.kind,
  entity_name: n.entityName,
  resource_id: n.resourceId,
  route: n.route,
  metadata: n.metadata,
  is_read: n.readAt !== null,
  created_at: n.createdAt.toISOString(),
  ...(n.readAt ? { read_at: n.readAt.toISOString() } : {}),
})

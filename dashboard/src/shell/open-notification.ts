import type { Notification } from '@mote/client'
import type { UseNavigateResult } from '@tanstack/react-router'
import { api } from '../api/client.ts'
import { chooseProject } from '../api/project.ts'
import { queries, queryClient } from '../api/queries.ts'

/** Opens the notification's page in its project, and marks it as read. */
export async function openNotification(
  { id, is_read, route, tenant_id }: Notification,
  navigate: UseNavigateResult<string>,
): Promise<void> {
  const projects = await queryClient.fetchQuery(queries.projects())
  const project = projects.find(one => one.id === tenant_id)
  if (project) chooseProject(project.tenant_id)
  if (route.startsWith('/')) await navigate({ href: route })
  if (is_read) return
  await api.markNotificationRead({ notification_id: id }).catch(() => {})
  await queryClient.invalidateQueries({ queryKey: ['notifications'] })
}

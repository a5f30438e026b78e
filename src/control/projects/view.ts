import type { Invitation, Member } from './member-store.ts'
import type { Invitation as InvitationView, Member as MemberView, Project as ProjectView } from './resources.ts'
import type { Project } from './store.ts'

export const viewProject = (p: Project): ProjectView => ({
  id: p.id,
  tenant_id: p.slug,
  name: p.name,
  created_at: p.createdAt.toISOString(),
  updated_at: p.updatedAt.toISOString(),
})

export const viewMember = (m: Member): MemberView => ({
  user_id: m.accountId,
  email: m.email,
  first_name: m.firstName,
  last_name: m.lastName,
  role: m.role,
  since: m.since.toISOString(),
})

export const viewInvitation = (i: Invitation): InvitationView => ({
  id: i.id,
  project: i.projectSlug,
  project_name: i.projectName,
  email: i.email,
  role: i.role,
  created_at: i.createdAt.toISOString(),
  expires_at: i.expiresAt.toISOString(),
})

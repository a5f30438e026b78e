import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import {
  Acknowledgement,
  dateTime,
  displayName,
  list,
  maybe,
  nullable,
  oneOf,
  resource,
  text,
  uuid,
} from '../http/types.ts'

export const Project = resource('Project', {
  id: uuid({ description: 'What other resources call `tenant_id`.' }),
  tenant_id: text({ description: 'The slug: unique everywhere, part of host names.' }),
  name: text(),
  created_at: dateTime(),
  updated_at: dateTime(),
})
export type Project = Static<typeof Project>

const roleText = '`owner` may do everything, `admin` manages members and viewers, `member` works, `viewer` only reads.'

export const Member = resource('Member', {
  user_id: uuid(),
  email: text(),
  first_name: nullable(text()),
  last_name: nullable(text()),
  role: oneOf(['owner', 'admin', 'member', 'viewer'], { description: roleText }),
  since: dateTime(),
})
export type Member = Static<typeof Member>

export const Invitation = resource('Invitation', {
  id: uuid(),
  project: text({ description: 'Slug of the project.' }),
  project_name: text(),
  email: text(),
  role: oneOf(['admin', 'member', 'viewer']),
  created_at: dateTime(),
  expires_at: dateTime(),
  link: maybe(
    text({ description: 'Accepts it, for whoever has the link. Only in the answer of the invitation itself.' }),
  ),
})
export type Invitation = Static<typeof Invitation>

export const MemberList = resource('MemberList', { members: list(Member), invitations: list(Invitation) })
export type MemberList = Static<typeof MemberList>

const shared = { tag: 'Projects', auth: 'bearer' } as const
const params = Type.Object({ tenant_slug: text({ description: 'Slug of the project.' }) })
const memberParams = Type.Object({ ...params.properties, user_id: uuid() })

export const projectOperations = operations({
  listProjects: {
    method: 'GET',
    path: '/v1/projects',
    summary: 'Projects the account is a member of',
    ...shared,
    scope: 'read',
    project: 'none',
    list: { order: ['-id'], filters: ['name'] },
    answer: list(Project),
  },
  createProject: {
    throttle: 'create',
    method: 'POST',
    path: '/v1/projects',
    summary: 'Creates a project; the slug is made from the name',
    ...shared,
    scope: 'admin',
    project: 'none',
    body: resource('CreateProjectRequest', { name: displayName() }),
    answer: Project,
  },
  getProject: {
    method: 'GET',
    path: '/v1/projects/{tenant_slug}',
    summary: 'One project',
    ...shared,
    scope: 'read',
    project: 'path',
    params,
    answer: Project,
  },
  updateProject: {
    method: 'PATCH',
    path: '/v1/projects/{tenant_slug}',
    summary: 'Renames a project; its slug stays',
    ...shared,
    scope: 'admin',
    project: 'path',
    params,
    body: resource('UpdateProjectRequest', { name: displayName() }),
    answer: Project,
  },
  deleteProject: {
    method: 'DELETE',
    path: '/v1/projects/{tenant_slug}',
    summary: 'Deletes a project and everything in it',
    proof: 'owner of the project',
    ...shared,
    scope: 'admin',
    project: 'path',
    params,
    answer: Acknowledgement,
  },
  listMembers: {
    method: 'GET',
    path: '/v1/projects/{tenant_slug}/members',
    summary: 'Members of the project and open invitations',
    ...shared,
    scope: 'read',
    project: 'path',
    params,
    answer: MemberList,
    addition: true,
    items: [
      {
        id: 'getMember',
        path: '/v1/projects/{tenant_slug}/members/{user_id}',
        by: 'user_id',
        summary: 'One member of a project',
        within: 'members',
      },
      {
        id: 'getProjectInvitation',
        path: '/v1/projects/{tenant_slug}/invitations/{invitation_id}',
        by: 'id',
        summary: 'One invitation to a project',
        within: 'invitations',
      },
    ],
  },
  inviteMember: {
    method: 'POST',
    path: '/v1/projects/{tenant_slug}/members',
    summary: 'Invites somebody by e-mail; inviting again renews',
    throttle: 'create',
    secretAnswer: true,
    ...shared,
    scope: 'admin',
    project: 'path',
    params,
    body: resource('InviteMemberRequest', {
      email: text({ minLength: 3, maxLength: 254, format: 'email' }),
      role: oneOf(['admin', 'member', 'viewer'], { description: roleText }),
    }),
    answer: Invitation,
    addition: true,
  },
  updateMember: {
    method: 'PATCH',
    path: '/v1/projects/{tenant_slug}/members/{user_id}',
    summary: 'Changes the role of a member; the last owner stays owner',
    ...shared,
    scope: 'admin',
    project: 'path',
    params: memberParams,
    body: resource('UpdateMemberRequest', {
      role: oneOf(['owner', 'admin', 'member', 'viewer'], { description: roleText }),
    }),
    answer: Member,
    addition: true,
  },
  removeMember: {
    method: 'DELETE',
    path: '/v1/projects/{tenant_slug}/members/{user_id}',
    summary: 'Takes a member out of the project; oneself too',
    proof: 'for others than oneself: admin of the project, owner for admins and owners',
    ...shared,
    scope: 'read',
    project: 'path',
    params: memberParams,
    answer: Acknowledgement,
    addition: true,
  },
  withdrawInvitation: {
    method: 'DELETE',
    path: '/v1/projects/{tenant_slug}/invitations/{invitation_id}',
    summary: 'Withdraws an invitation',
    ...shared,
    scope: 'admin',
    project: 'path',
    params: Type.Object({ ...params.properties, invitation_id: uuid() }),
    answer: Acknowledgement,
    addition: true,
  },
  listInvitations: {
    method: 'GET',
    path: '/v1/invitations',
    summary: 'Open invitations to the account',
    ...shared,
    scope: 'read',
    project: 'none',
    list: { order: ['id'] },
    answer: list(Invitation),
    addition: true,
    items: [
      {
        id: 'getInvitation',
        path: '/v1/invitations/{invitation_id}',
        by: 'id',
        summary: 'One invitation to the account',
      },
    ],
  },
  acceptInvitation: {
    method: 'POST',
    path: '/v1/invitations/{invitation_id}/accept',
    summary: 'Joins the project of an invitation',
    ...shared,
    scope: 'admin',
    project: 'none',
    proof: 'secret of the invitation, or the invited address, verified',
    params: Type.Object({ invitation_id: uuid() }),
    body: resource('AcceptInvitationRequest', {
      secret: maybe(
        text({
          maxLength: 200,
          description: 'Of the link. Without it the account needs the invited address, verified.',
        }),
      ),
    }),
    answer: Project,
    addition: true,
  },
})

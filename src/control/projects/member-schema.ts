/** Operations on the members of projects and on invitations. */
import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, list, maybe, resource, text, uuid } from '../http/types.ts'
import {
  CreatedInvitation,
  Invitation,
  Member,
  MemberList,
  Project,
  invitedRole,
  memberRole,
  params,
} from './resources.ts'

const shared = { tag: 'Projects', auth: 'bearer', addition: true } as const
const memberParams = Type.Object({
  ...params.properties,
  user_id: uuid({ description: "Id of the member's account." }),
})

export const memberOperations = operations({
  listMembers: {
    method: 'GET',
    path: '/v1/projects/{tenant_slug}/members',
    summary: 'List members and invitations',
    description: 'Lists the members of the project and the open invitations to it. Every member may read this list.',
    ...shared,
    scope: 'read',
    project: 'path',
    params,
    answer: MemberList,
    items: [
      {
        id: 'getMember',
        path: '/v1/projects/{tenant_slug}/members/{user_id}',
        by: 'user_id',
        summary: 'Get a member',
        description: 'Returns one member of the project.',
        within: 'members',
      },
      {
        id: 'getProjectInvitation',
        path: '/v1/projects/{tenant_slug}/invitations/{invitation_id}',
        by: 'id',
        summary: 'Get an invitation of a project',
        description:
          'Returns one open invitation to the project, without its link. Responds with 404 once the invitation is accepted, withdrawn or expired.',
        within: 'invitations',
      },
    ],
  },
  inviteMember: {
    method: 'POST',
    path: '/v1/projects/{tenant_slug}/members',
    summary: 'Invite a member',
    description:
      'Mails an invitation link, valid for seven days, to the address, and also returns the link. Inviting the same address again replaces the role and the link. Admins may invite members and viewers; owners may also invite admins. Open invitations count toward `max_team_members`.',
    throttle: 'create',
    secretAnswer: true,
    ...shared,
    scope: 'admin',
    project: 'path',
    params,
    body: resource(
      'InviteMemberRequest',
      {
        email: text({
          minLength: 3,
          maxLength: 254,
          format: 'email',
          description: 'E-mail address to invite. It does not need to have an account yet.',
          examples: ['grace@example.com'],
        }),
        role: invitedRole(),
      },
      { description: 'Address to invite, and the offered role.' },
    ),
    answer: CreatedInvitation,
  },
  updateMember: {
    method: 'PATCH',
    path: '/v1/projects/{tenant_slug}/members/{user_id}',
    summary: 'Change the role of a member',
    description:
      'Changes the role of a member, with effect from their next request. Admins may turn members into viewers and back; owners may change every role. Responds with 409 if the last owner would lose that role.',
    ...shared,
    scope: 'admin',
    project: 'path',
    params: memberParams,
    body: resource('UpdateMemberRequest', { role: memberRole() }, { description: 'New role of a member.' }),
    fails: [409],
    answer: Member,
  },
  removeMember: {
    method: 'DELETE',
    path: '/v1/projects/{tenant_slug}/members/{user_id}',
    summary: 'Remove a member',
    description:
      'Ends the membership at once: sessions and tokens of the account lose access to the project. Members may remove themselves, admins may remove members and viewers, and owners may remove anyone except the last owner. The credential needs the scope `admin`.',
    proof: 'to remove others: admin of the project, and to remove its admins and owners: owner',
    ...shared,
    scope: 'read',
    project: 'path',
    params: memberParams,
    fails: [403, 409],
    answer: acknowledgement('removed'),
  },
  withdrawInvitation: {
    method: 'DELETE',
    path: '/v1/projects/{tenant_slug}/invitations/{invitation_id}',
    summary: 'Withdraw an invitation',
    description: 'Deletes an open invitation: its link stops working. Only for admins and owners of the project.',
    ...shared,
    scope: 'admin',
    project: 'path',
    params: Type.Object({
      ...params.properties,
      invitation_id: uuid({ description: 'Id of the invitation, from the list of members and invitations.' }),
    }),
    answer: acknowledgement('withdrawn'),
  },
  listInvitations: {
    method: 'GET',
    path: '/v1/invitations',
    summary: 'List your invitations',
    description:
      'Lists open invitations to the e-mail address of the account, oldest first. The list is empty until the address is verified, and always empty for tokens that are bound to a project.',
    ...shared,
    scope: 'read',
    project: 'none',
    list: { order: ['id'] },
    answer: list(Invitation),
    items: [
      {
        id: 'getInvitation',
        path: '/v1/invitations/{invitation_id}',
        by: 'id',
        summary: 'Get one of your invitations',
        description: 'Returns one open invitation to the verified address of the account.',
      },
    ],
  },
  acceptInvitation: {
    method: 'POST',
    path: '/v1/invitations/{invitation_id}/accept',
    summary: 'Accept an invitation',
    description:
      'Makes the account a member of the project, notifies the other members, and returns the project. This requires the secret from the link, or an account whose verified address was invited. An invitation works once; afterwards the request returns 404.',
    ...shared,
    scope: 'admin',
    project: 'none',
    proof: 'secret of the invitation, or an account whose verified e-mail address was invited',
    params: Type.Object({
      invitation_id: uuid({ description: 'Id of the invitation: the part of its link between the `#` and the dot.' }),
    }),
    body: resource(
      'AcceptInvitationRequest',
      {
        secret: maybe(
          text({
            maxLength: 200,
            description:
              'Secret of the invitation: the part of its link after the dot. Not needed if the invitation was sent to the verified e-mail address of the account.',
            examples: ['Wm8kZ1xT7uYb5nR2wLdE9aHfGjS6pIoKqXsBc3vQ0Jt'],
          }),
        ),
      },
      { description: 'Secret of the invitation. May be empty if the invited address is verified.' },
    ),
    answer: Project,
  },
})

/** Schemas of the responses of project operations. */
import { type Static, Type } from 'typebox'
import { dateTime, list, nullable, oneOf, resource, text, uuid } from '../http/types.ts'

export const Project = resource(
  'Project',
  {
    id: uuid({ description: 'UUID of the project, which other resources call `tenant_id` or `project_id`.' }),
    tenant_id: text({
      description:
        'Slug of the project: unique in the installation, and part of the host names of its apps. It never changes.',
      examples: ['acme'],
    }),
    name: text({
      description: 'Display name of the project, shown in the dashboard and in notifications.',
      examples: ['Acme'],
    }),
    created_at: dateTime({ description: 'When the project was created.' }),
    updated_at: dateTime({ description: 'When the project was last changed, for example renamed.' }),
  },
  { description: 'A project, also called a tenant, which owns apps, volumes and databases.' },
)
export type Project = Static<typeof Project>

export const memberRole = () =>
  oneOf(['owner', 'admin', 'member', 'viewer'], {
    description:
      'Role in the project. A `viewer` may only read, a `member` may also change resources, an `admin` may also rename the project and manage members and viewers, and an `owner` may do everything.',
    examples: ['member'],
  })
export const invitedRole = () =>
  oneOf(['admin', 'member', 'viewer'], {
    description:
      'Role in the project after joining. A `viewer` may only read, a `member` may also change resources, and an `admin` may also rename the project and manage members and viewers.',
    examples: ['member'],
  })

export const Member = resource(
  'Member',
  {
    user_id: uuid({ description: "Id of the member's account." }),
    email: text({ description: 'E-mail address of the member.', examples: ['ada@example.com'] }),
    first_name: nullable(text({ description: 'Given name; null if never set.', examples: ['Ada'] })),
    last_name: nullable(text({ description: 'Family name; null if never set.', examples: ['Example'] })),
    role: memberRole(),
    since: dateTime({ description: 'When the account joined the project.' }),
  },
  { description: "A member of a project, with the member's role." },
)
export type Member = Static<typeof Member>

export const Invitation = resource(
  'Invitation',
  {
    id: uuid({ description: 'Id of the invitation, needed to accept or withdraw it.' }),
    project: text({ description: 'Slug of the project.', examples: ['acme'] }),
    project_name: text({ description: 'Display name of the project.', examples: ['Acme'] }),
    email: text({ description: 'Invited e-mail address, in lower case.', examples: ['grace@example.com'] }),
    role: invitedRole(),
    created_at: dateTime({ description: 'When the address was first invited.' }),
    expires_at: dateTime({
      description: 'When the invitation expires: seven days after it was created or last renewed.',
      examples: ['2026-03-21T09:26:53.589Z'],
    }),
  },
  { description: 'An invitation of an e-mail address to a project.' },
)
export type Invitation = Static<typeof Invitation>

export const CreatedInvitation = resource(
  'CreatedInvitation',
  {
    ...Invitation.properties,
    link: text({
      description:
        'Link that accepts the invitation. Anyone who has the link can join the project. It is never shown again.',
      examples: [
        'https://mote.example.com/link/invitation#0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10.Wm8kZ1xT7uYb5nR2wLdE9aHfGjS6pIoKqXsBc3vQ0Jt',
      ],
    }),
  },
  { description: 'A new or renewed invitation, including the link that accepts it.' },
)

export const MemberList = resource(
  'MemberList',
  {
    members: list(Member, { description: 'Members of the project, in the order in which they joined.' }),
    invitations: list(Invitation, { description: 'Open invitations, oldest first. Expired ones are left out.' }),
  },
  { description: 'Members of a project and open invitations to it.' },
)
export type MemberList = Static<typeof MemberList>

export const params = Type.Object({
  tenant_slug: text({ description: 'Slug or id of the project.', examples: ['acme'] }),
})

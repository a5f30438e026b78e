import { randomBytes } from 'node:crypto'
import { newId } from '../../lib/ids.ts'
import type { Tx } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { forbidden, invalidState, notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { notify, notifyAccount, queueMail } from '../notifications/index.ts'
import { lockProject } from './locking.ts'
import { assertMayManage } from './member-routes.ts'
import * as members from './member-store.ts'
import { assertWithin } from './plans.ts'
import { invitationLifeMs } from './rules.ts'
import type { projectOperations } from './schema.ts'
import { addMember, project } from './store.ts'
import { viewInvitation, viewProject } from './view.ts'

type InvitationDeps = Pick<Deps, 'db' | 'clock' | 'config' | 'vault'>
type InvitationHandlers = Pick<
  Handlers<typeof projectOperations>,
  'inviteMember' | 'withdrawInvitation' | 'listInvitations' | 'acceptInvitation'
>

export const invitationHandlers = (deps: InvitationDeps): InvitationHandlers => ({
  inviteMember: {
    write:
      async ({ project: access, caller, body, audit }) =>
      async tx => {
        const email = body.email.trim().toLowerCase()
        const limits = await lockProject(tx, access.id)
        const current = await members.membersOf(tx, access.id)
        assertMayManage(current, caller.userId, [body.role])
        if (current.some(member => member.email === email)) throw invalidState(`${email} is already a member.`)
        const now = deps.clock.now()
        const open = (await members.invitationsOf(tx, access.id, now)).filter(other => other.email !== email)
        assertWithin(limits, 'maxTeamMembers', current.length + open.length)
        const secret = randomBytes(32).toString('base64url')
        const id = await members.invite(tx, {
          id: newId(),
          projectId: access.id,
          email,
          role: body.role,
          invitedBy: caller.userId,
          expiresAt: new Date(now.getTime() + invitationLifeMs),
          secretHash: hashOf(deps, secret),
        })
        audit({
          action: 'member.invited',
          resourceType: 'invitation',
          resourceId: id,
          details: { email, role: body.role },
        })
        const link = `${deps.config.publicUrl}/link/invitation#${id}.${secret}`
        await notifyInvited(tx, deps, { email, projectName: access.name, by: caller.email, link })
        const made = (await members.invitationsOf(tx, access.id, now)).find(other => other.id === id)
        if (!made) throw new Error('BUG: an invitation vanished in its own transaction')
        return { ...viewInvitation(made), link }
      },
  },
  withdrawInvitation: {
    write:
      async ({ project: access, caller, params, audit }) =>
      async tx => {
        assertMayManage(await members.membersOf(tx, access.id), caller.userId, ['member'])
        const gone = await members.cancelInvitation(tx, params.invitation_id, access.id)
        if (!gone) throw notFound()
        const details = { email: gone.email }
        audit({
          action: 'member.invitation_withdrawn',
          resourceType: 'invitation',
          resourceId: params.invitation_id,
          details,
        })
        return { status: 'withdrawn' as const }
      },
  },
  listInvitations: {
    read: async ({ caller }) => {
      if (caller.boundProjectId !== null) return []
      return (await members.invitationsFor(deps.db, caller.email, deps.clock.now())).map(viewInvitation)
    },
  },
  acceptInvitation: {
    write: async ({ caller, params, body, audit }) => {
      if (caller.boundProjectId !== null) throw forbidden('This token is bound to a project and cannot join another.')
      const who = { accountId: caller.userId, secretHash: body.secret ? hashOf(deps, body.secret) : null }
      return async tx => {
        const now = deps.clock.now()
        const id = params.invitation_id.toLowerCase()
        const invitation = await members.invitationFor(tx, id, who, now)
        if (!invitation) throw notFound()
        // Lock the project before the invitation, as the handler that creates invitations does: with different orders,
        // the two could deadlock.
        const limits = await lockProject(tx, invitation.projectId)
        const current = await members.membersOf(tx, invitation.projectId)
        if (current.some(member => member.accountId === caller.userId))
          throw invalidState('You are already a member of this project.')
        const taken = await members.acceptInvitation(tx, id, who, now)
        if (!taken) throw notFound()
        // Check the plan's limit of members again: it was checked when the invitation was created, but the plan may
        // have become smaller since.
        assertWithin(limits, 'maxTeamMembers', current.length)
        const joined = await project(tx, taken.projectId)
        if (!joined) throw notFound()
        await notify(tx, {
          projectId: joined.id,
          kind: 'project.member_added',
          title: `${caller.email} joined ${joined.name}`,
          body: `Role: ${taken.role}.`,
          entityName: caller.email,
          resourceId: caller.userId,
          route: `/projects/${joined.slug}/members`,
        })
        await addMember(tx, joined.id, caller.userId, taken.role)
        const note = { action: 'member.added', resourceType: 'member', resourceId: caller.userId }
        audit({ ...note, details: { role: taken.role } }, { userId: caller.userId, projectId: joined.id })
        return viewProject(joined)
      }
    },
  },
})

const hashOf = ({ vault }: InvitationDeps, secret: string) => vault.hash('invitation', secret)

interface InvitationMail {
  readonly email: string
  readonly projectName: string
  readonly by: string
  readonly link: string
}

/**
 * Mails the link of the invitation. The dashboard shows the invitation only to an account that has verified the invited
 * address.
 */
async function notifyInvited(
  tx: Tx,
  deps: InvitationDeps,
  { email, projectName, by, link }: InvitationMail,
): Promise<void> {
  const body = `${by} invites you to the project "${projectName}".`
  const title = `Invitation to ${projectName}`
  queueMail(tx, deps, { to: email, subject: title, text: `${body} To join it, open:\n\n${link}` })
  const accountId = await members.verifiedAccountId(tx, email)
  if (accountId !== undefined) await notifyAccount(tx, { accountId, kind: 'project.invitation', title, body })
}

import type { Deps } from '../base/deps.ts'
import { ApiError, forbidden, notFound } from '../http/errors.ts'
import type { Handlers, MemberRole } from '../http/operation.ts'
import { lockProject } from './locking.ts'
import * as members from './member-store.ts'
import { canManage } from './rules.ts'
import type { projectOperations } from './schema.ts'
import { moveDefaultsAway } from './store.ts'
import { viewInvitation, viewMember } from './view.ts'

type MemberHandlers = Pick<Handlers<typeof projectOperations>, 'listMembers' | 'updateMember' | 'removeMember'>

/**
 * Handlers of the member operations. They read the members' roles again after they have locked the project, so that
 * concurrent changes cannot leave a project without an owner.
 */
export const memberHandlers = (deps: Pick<Deps, 'db' | 'clock'>): MemberHandlers => ({
  listMembers: {
    read: async ({ project: { id } }) => ({
      members: (await members.membersOf(deps.db, id)).map(viewMember),
      invitations: (await members.invitationsOf(deps.db, id, deps.clock.now())).map(viewInvitation),
    }),
  },
  updateMember: {
    write:
      async ({ project: access, caller, params, body, audit }) =>
      async tx => {
        await lockProject(tx, access.id)
        const current = await members.membersOf(tx, access.id)
        const target = find(current, params.user_id)
        assertMayManage(current, caller.userId, [target.role, body.role])
        if (target.role === 'owner' && body.role !== 'owner') assertAnotherOwner(current, target.accountId)
        await members.setRole(tx, access.id, target.accountId, body.role)
        const details = { from: target.role, to: body.role }
        audit({ action: 'member.role_changed', resourceType: 'member', resourceId: target.accountId, details })
        return viewMember({ ...target, role: body.role })
      },
  },
  removeMember: {
    write: async ({ project: access, caller, params, audit }) => {
      // The operation `removeMember` declares only the scope `read`, because viewers may leave a project. A token that
      // can only read must not use it, so check the scope here.
      if (!caller.scopes.has('admin')) throw forbidden('This token needs the scope "admin".')
      return async tx => {
        await lockProject(tx, access.id)
        const current = await members.membersOf(tx, access.id)
        const target = find(current, params.user_id)
        if (target.accountId !== caller.userId) assertMayManage(current, caller.userId, [target.role])
        if (target.role === 'owner') assertAnotherOwner(current, target.accountId)
        await members.dropMember(tx, access.id, target.accountId)
        await moveDefaultsAway(tx, access.id, target.accountId)
        members.announceChange(tx, target.accountId)
        const details = { email: target.email, role: target.role }
        audit({ action: 'member.removed', resourceType: 'member', resourceId: target.accountId, details })
        return { status: 'removed' as const }
      }
    },
  },
})

function find(current: readonly members.Member[], accountId: string): members.Member {
  const member = current.find(other => other.accountId === accountId.toLowerCase())
  if (!member) throw notFound()
  return member
}

/** Checks that the caller may add, change or remove members with these roles. @throws ApiError 403 if it may not */
export function assertMayManage(
  current: readonly members.Member[],
  accountId: string,
  roles: readonly MemberRole[],
): void {
  const actor = current.find(member => member.accountId === accountId)
  if (actor && canManage(actor.role, roles)) return
  throw forbidden('Admins of the project manage members and viewers; owners manage all members.')
}

function assertAnotherOwner(current: readonly members.Member[], accountId: string): void {
  if (current.some(member => member.role === 'owner' && member.accountId !== accountId)) return
  throw new ApiError(
    'invalid_state',
    'The project needs an owner. Make another member owner first, or delete the project.',
  )
}

/** Deletes projects: a single one, or those of an account that is deleted. */
import type { Tx } from '../../db/db.ts'
import { createWorkflow } from '../../engine/runner.ts'
import { hours } from '../../lib/duration.ts'
import type { MemberRole } from '../http/operation.ts'
import { type Member, dropMember, lockedMemberships, membersOf, setRole } from './member-store.ts'
import { moveDefaultsAway, wantDeleted } from './store.ts'

/** Deleting all resources may wait for slow hosts; an alert is raised after this time. */
const deadlineMs = hours(1)

/**
 * Marks the project as deleted, which makes it inaccessible from the commit on; a workflow deletes its resources.
 * Returns false if it was marked before.
 */
export async function deleteProject(tx: Tx, projectId: string): Promise<boolean> {
  if (!(await wantDeleted(tx, projectId))) return false
  await moveDefaultsAway(tx, projectId)
  await createWorkflow(tx, 'project', projectId, 'emptying', { deadlineMs })
  return true
}

export interface Left {
  readonly deleted: readonly string[]
  readonly handedOver: readonly string[]
}

/**
 * Removes an account from all its projects. A project that it owned alone is deleted if it has no other members, else
 * the member with the highest role, the longest-standing first, becomes owner.
 */
export async function leaveAllProjects(tx: Tx, accountId: string): Promise<Left> {
  const deleted: string[] = []
  const handedOver: string[] = []
  for (const { projectId, role } of await lockedMemberships(tx, accountId)) {
    const others = (await membersOf(tx, projectId)).filter(member => member.accountId !== accountId)
    if (others.length === 0) {
      await deleteProject(tx, projectId)
      deleted.push(projectId)
      continue
    }
    const heir = role === 'owner' ? successor(others) : undefined
    if (heir) {
      await setRole(tx, projectId, heir.accountId, 'owner')
      handedOver.push(projectId)
    }
    await dropMember(tx, projectId, accountId)
  }
  return { deleted, handedOver }
}

/** Undefined if there is another owner. Members are sorted oldest first. */
function successor(others: readonly Member[]): Member | undefined {
  if (others.some(member => member.role === 'owner')) return undefined
  const order: readonly MemberRole[] = ['admin', 'member', 'viewer']
  return order.map(role => others.find(member => member.role === role)).find(member => member !== undefined)
}

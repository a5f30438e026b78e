/** Ending projects: one that is deleted, and all those of an account that leaves. */
import type { Tx } from '../../db/db.ts'
import { createWorkflow } from '../../engine/runner.ts'
import { hours } from '../../lib/duration.ts'
import type { MemberRole } from '../http/operation.ts'
import { type Member, dropMember, lockedMemberships, membersOf, setRole } from './member-store.ts'
import { moveDefaultsAway, wantDeleted } from './store.ts'

/** Tearing down everything inside may wait for slow hosts; longer than this is an alert. */
const deadlineMs = hours(1)

/** From the commit on nobody reaches the project; a machine empties and removes it. False when it was deleted already. */
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
 * Takes an account out of all its projects: what it owned alone is deleted when nobody else is in it, else handed to
 * the highest and then oldest of the others.
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

/** Undefined when there is another owner. Members come oldest first. */
function successor(others: readonly Member[]): Member | undefined {
  if (others.some(member => member.role === 'owner')) return undefined
  const order: readonly MemberRole[] = ['admin', 'member', 'viewer']
  return order.map(role => others.find(member => member.role === role)).find(member => member !== undefined)
}

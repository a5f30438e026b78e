/** Deletes projects: a single one, or those of an account that is deleted. */
import type { Tx } from '../../db/db.ts'
import { createWorkflow } from '../../engine/runner.ts'
import { hours } from '../../lib/duration.ts'
import type { MemberRole } from '../http/operation.ts'
import { type Member, dropMember, lockedMemberships, membersOf, setRole } from './member-store.ts'
import { moveDefaultsAway, wantDeleted } from './store.ts'

/**
 * Time after which an unfinished deletion opens an alert. It is long because deleting all resources may have to wait
 * for slow hosts.
 */
const deadlineMs = hours(1)

/**
 * Marks the project as deleted, which makes it inaccessible as soon as the transaction commits. A workflow then deletes
 * its resources. Returns false if the project was already marked.
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
 * Removes an account from all its projects. A project without other members is deleted. If the account was the only
 * owner, the member with the highest role becomes owner (among members with equal roles the one who joined first).
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

/**
 * Returns the member who becomes owner when an owner leaves; undefined if the project has another owner. `others`: the
 * remaining members, in the order in which they joined.
 */
function successor(others: readonly Member[]): Member | undefined {
  if (others.some(member => member.role === 'owner')) return undefined
  const order: readonly MemberRole[] = ['admin', 'member', 'viewer']
  return order.map(role => others.find(member => member.role === role)).find(member => member !== undefined)
}

import type { Tx } from '../../db/db.ts'
import { notFound } from '../http/errors.ts'
import { type PlanLimits, planLimits } from './plans.ts'
import { lockedPlan } from './store.ts'

/**
 * Locks the project until the transaction ends and says what its plan allows. Whatever is counted after this call
 * cannot grow behind our back, as every create counts under the same lock; and no project that is being deleted gets
 * anything new.
 * @throws ApiError 404 when the project is gone or being deleted
 */
export async function lockProject(tx: Tx, projectId: string): Promise<PlanLimits> {
  const plan = await lockedPlan(tx, projectId)
  if (plan === undefined) throw notFound()
  return planLimits(plan)
}

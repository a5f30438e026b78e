import type { Tx } from '../../db/db.ts'
import { ApiError, notFound } from '../http/errors.ts'
import { type PlanLimits, planLimits, uncountedPlans } from './plans.ts'
import { isCapped, lockedLimits, lockedPlan } from './store.ts'

/**
 * Returns the limits of the project's plan and locks them until the transaction ends. Counts made after this call
 * cannot be outdated, because every create counts under the same lock, and a project that is being deleted gets no new
 * resources. If the plan has no numeric limits, creates do not wait for each other.
 * @throws ApiError 404 if the project is deleted or being deleted
 */
export async function lockLimits(tx: Tx, projectId: string): Promise<PlanLimits> {
  const plan = await lockedLimits(tx, projectId, uncountedPlans)
  if (plan === undefined) throw notFound()
  return planLimits(plan)
}

/**
 * Locks the project exclusively until the transaction ends and returns the limits of its plan. For changes that must
 * run one at a time in every plan, even in one without numeric limits.
 * @throws ApiError 404 if the project is deleted or being deleted
 */
export async function lockProject(tx: Tx, projectId: string): Promise<PlanLimits> {
  const plan = await lockedPlan(tx, projectId)
  if (plan === undefined) throw notFound()
  return planLimits(plan)
}

/**
 * Checks that the project may run something new. @throws ApiError 403 `plan_limit_exceeded` if its monthly budget is
 * used up
 */
export async function assertNotCapped(tx: Tx, projectId: string): Promise<void> {
  if (!(await isCapped(tx, projectId))) return
  throw new ApiError(
    'plan_limit_exceeded',
    'The budget of this project is used up. Raise it, or wait for the next month.',
    {
      extra: { limit: 'budget', used: 0, max: 0 },
    },
  )
}

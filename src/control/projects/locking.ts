import type { Tx } from '../../db/db.ts'
import { ApiError, notFound } from '../http/errors.ts'
import { type PlanLimits, planLimits, uncountedPlans } from './plans.ts'
import { isCapped, lockedLimits, lockedPlan } from './store.ts'

/**
 * What the plan allows, until the transaction ends. Whatever is counted after this call cannot grow past a limit behind
 * our back, as every create counts under the same lock; and no project that is being deleted gets anything new. Where
 * the plan limits no number, creates do not wait for one another.
 * @throws ApiError 404 when the project is gone or being deleted
 */
export async function lockLimits(tx: Tx, projectId: string): Promise<PlanLimits> {
  const plan = await lockedLimits(tx, projectId, uncountedPlans)
  if (plan === undefined) throw notFound()
  return planLimits(plan)
}

/**
 * Locks the project until the transaction ends and says what its plan allows: for decisions of which there may be one at
 * a time whatever the plan.
 * @throws ApiError 404 when the project is gone or being deleted
 */
export async function lockProject(tx: Tx, projectId: string): Promise<PlanLimits> {
  const plan = await lockedPlan(tx, projectId)
  if (plan === undefined) throw notFound()
  return planLimits(plan)
}

/** @throws ApiError 403 `plan_limit_exceeded` when the budget of the month is used up */
export async function assertNotCapped(tx: Tx, projectId: string): Promise<void> {
  if (!(await isCapped(tx, projectId))) return
  throw new ApiError(
    'plan_limit_exceeded',
    'The budget of this project is used up: raise it, or wait for the next month.',
    {
      extra: { limit: 'budget', used: 0, max: 0 },
    },
  )
}

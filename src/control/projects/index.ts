/** Projects: members, invitations, plans and their limits, deletion. */
export { leaveAllProjects } from './deletion.ts'
export { assertNotCapped, lockLimits, lockProject } from './locking.ts'
export { type ProjectContents, projectWorkflow } from './workflow.ts'
export {
  type CountedLimit,
  type Permission,
  type Plan,
  type PlanLimits,
  assertAllowed,
  assertWithin,
  isPlan,
  planLimits,
  plans,
} from './plans.ts'
export { projectsFeature } from './routes.ts'
export { slugify } from './rules.ts'
export { type NewProject, type Project, changePlan, createProject, lockedPlan } from './store.ts'

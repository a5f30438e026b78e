/** Migrations of running VMs to other hosts, including their volumes and snapshots. */
export { migrationWorkflow } from './workflow.ts'
export { cancelMigration, startMigration } from './start.ts'
export {
  type Migration,
  countFromHost as migrationsFrom,
  failedMoves,
  newest as newestMigration,
} from './store.ts'
export { chooseMove, type CoMoved, coMovedOf, moveObstacle, type MovePlan } from './plan.ts'

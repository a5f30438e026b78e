/** Moves of volumes and VM snapshots between hosts. */
export { drainedSnapshots } from './drained.ts'
export { lockGroup as lockMoves, pokeMoveOfSnapshot } from './group.ts'
export { goingWith, retainedBySnapshot, takenElsewhere } from './retained.ts'
export { type RetainedSnapshot, keptBehind, retainedWithVolumes, notTaken } from './co-moved-snapshots.ts'
export { volumeMoveWorkflow } from './volume-workflow.ts'
export { snapshotMoveWorkflow } from './snapshot-workflow.ts'
export { type SnapshotMove, snapshotMovesOf } from './snapshot-store.ts'
export {
  cancelMove,
  cancelMovesOf,
  completeMovesOf,
  finishCopies,
  type MoveRequest,
  pokeMoveOf,
  startMove,
  startSnapshotMove,
} from './start.ts'
export { withoutFailedTargetsFirst } from './failed-targets.ts'
export { lock as lockVolumes, newest as newestMove, ofMigration as movesOf, type VolumeMove } from './volume-store.ts'

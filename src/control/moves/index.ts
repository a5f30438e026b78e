export { drainedSnapshots } from './drained.ts'
export { lockGroup as lockMoves, pokeMoveOfSnapshot } from './group.ts'
export { goingWith, retainedBySnapshot, takenElsewhere } from './kept.ts'
export { type RetainedSnapshot, keptBehind, retainedWithVolumes, notTaken } from './luggage.ts'
export { volumeMoveWorkflow } from './machine.ts'
export { snapshotMoveWorkflow } from './snapshot-machine.ts'
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
export { withoutFailedTargetsFirst } from './tried.ts'
export { lock as lockVolumes, newest as newestMove, ofMigration as movesOf, type VolumeMove } from './store.ts'

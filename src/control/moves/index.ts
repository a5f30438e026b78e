export { drainedSnapshots } from './drained.ts'
export { lockGroup as lockMoves, pokeMoveOfSnapshot } from './group.ts'
export { goingWith, keptBySnapshot, takenElsewhere } from './kept.ts'
export { type KeptSnapshot, keptBehind, keptWithVolumes, notTaken } from './luggage.ts'
export { volumeMoveMachine } from './machine.ts'
export { snapshotMoveMachine } from './snapshot-machine.ts'
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
export { untriedFirst } from './tried.ts'
export { lock as lockVolumes, newest as newestMove, ofMigration as movesOf, type VolumeMove } from './store.ts'

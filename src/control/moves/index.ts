export { keptBySnapshot, keptReason } from './kept.ts'
export { volumeMoveMachine } from './machine.ts'
export {
  cancelMove,
  cancelMovesOf,
  completeMovesOf,
  finishCopies,
  type MoveRequest,
  pokeMoveOf,
  startMove,
} from './start.ts'
export { lock as lockVolumes, newest as newestMove, ofMigration as movesOf, type VolumeMove } from './store.ts'

/** What is to be done next to a volume, and what is seen of it: facts in, nothing else. */
import type { VolumeObserved, VolumePut, Transfer } from '../../contract/agent.ts'
import type { VolumeDone } from './store.ts'

export interface VolumeFacts {
  readonly wish: VolumePut
  readonly done: VolumeDone
}

export const isRestoring = ({ wish, done }: VolumeFacts) =>
  wish.restore !== undefined && wish.restore.count > done.restored && done.failure?.generation !== wish.generation

export type VolumeAction = 'create' | 'arrive' | 'restore' | 'grow' | 'remove' | 'rest'

/** A failure stands until there is a newer wish. */
export function nextAction(entry: VolumeFacts, held: boolean): VolumeAction {
  const { wish, done } = entry
  if (wish.want === 'absent') return held ? 'rest' : 'remove'
  if (done.failure?.generation === wish.generation) return 'rest'
  if (wish.incoming) return 'rest'
  if (!done.created) return wish.arrived ? 'arrive' : 'create'
  if (isRestoring(entry)) return held ? 'rest' : 'restore'
  return (done.sizeMib ?? 0) < wish.sizeMib ? 'grow' : 'rest'
}

export function observe(entry: VolumeFacts, transfer?: Transfer): VolumeObserved {
  const { wish, done } = entry
  const { volumeId, generation } = wish
  const failed = done.failure?.generation === generation
  const error = failed ? (done.failure?.error ?? null) : null
  const size = { restored: done.restored, sizeMib: done.sizeMib ?? 0 }
  const seen = { volumeId, generation, ...size, error, ...(transfer ? { transfer } : {}) }
  if (wish.want === 'absent') return { ...seen, state: 'removing' }
  if (failed) return { ...seen, state: 'failed' }
  if (!done.created) return { ...seen, state: 'creating' }
  return { ...seen, state: isRestoring(entry) ? 'restoring' : 'ready' }
}

export const absent = (volumeId: string, generation: number): VolumeObserved => ({
  volumeId,
  generation,
  state: 'absent',
  restored: 0,
  error: null,
})

/** Decides the next action for a volume, and derives its observed state. Pure functions. */
import type { VolumeObserved, VolumePut, Transfer } from '../../contract/agent.ts'
import type { VolumeDone } from './store.ts'

export interface VolumeFacts {
  readonly desired: VolumePut
  readonly done: VolumeDone
}

export const isRestoring = ({ desired, done }: VolumeFacts) =>
  desired.restore !== undefined &&
  desired.restore.count > done.restored &&
  done.failure?.generation !== desired.generation

export type VolumeAction = 'create' | 'arrive' | 'restore' | 'grow' | 'remove' | 'rest'

/** Returns the next action. A failed volume stays failed until its desired state has a newer generation. */
export function nextAction(entry: VolumeFacts, held: boolean): VolumeAction {
  const { desired, done } = entry
  if (desired.want === 'absent') return held ? 'rest' : 'remove'
  if (done.failure?.generation === desired.generation) return 'rest'
  if (desired.incoming) return 'rest'
  if (!done.created) return desired.arrived ? 'arrive' : 'create'
  if (isRestoring(entry)) return held ? 'rest' : 'restore'
  return (done.sizeMib ?? 0) < desired.sizeMib ? 'grow' : 'rest'
}

export function observe(entry: VolumeFacts, transfer?: Transfer): VolumeObserved {
  const { desired, done } = entry
  const { volumeId, generation } = desired
  const failed = done.failure?.generation === generation
  const error = failed ? (done.failure?.error ?? null) : null
  const size = { restored: done.restored, sizeMib: done.sizeMib ?? 0 }
  const observed = { volumeId, generation, ...size, error, ...(transfer ? { transfer } : {}) }
  if (desired.want === 'absent') return { ...observed, state: 'removing' }
  if (failed) return { ...observed, state: 'failed' }
  if (!done.created) return { ...observed, state: 'creating' }
  return { ...observed, state: isRestoring(entry) ? 'restoring' : 'ready' }
}

export const absent = (volumeId: string, generation: number): VolumeObserved => ({
  volumeId,
  generation,
  state: 'absent',
  restored: 0,
  error: null,
})

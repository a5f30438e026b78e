/** Connects transfers of volumes with this host's volume records: stores results, and reports progress. */
import type { DiskSpec, VolumePut } from '../../../contract/agent.ts'
import { StepError } from '../../base/step-error.ts'
import type { VolumeDone } from '../store.ts'
import { createMoves, type Moves, type MovesDeps } from './moves.ts'
import { type VolumesWithVms, type WithVmDeps, volumesWithVms } from './with-vm.ts'

export interface HooksDeps<E extends { readonly desired: VolumePut; readonly done: VolumeDone }>
  extends Omit<MovesDeps, 'keep' | 'onChange' | 'holders'>,
    Pick<WithVmDeps, 'keyOf' | 'holders'> {
  readonly holders: MovesDeps['holders'] & WithVmDeps['holders']
  readonly find: (volumeId: string) => E | undefined
  readonly finish: (entry: E, done: VolumeDone) => Promise<void>
  readonly report: (entry: E) => void
  /** Records the attachment of the disk as the newest one of its volume. @throws StepError `stale_volume_generation` */
  readonly fence: (disk: DiskSpec) => Promise<void>
}

export function moveHooks<E extends { readonly desired: VolumePut; readonly done: VolumeDone }>(
  deps: HooksDeps<E>,
): { readonly moves: Moves; readonly withVms: VolumesWithVms } {
  const { find, finish, report, poolOf, holders, keyOf, mutex, isGone } = deps
  const keep = async (volumeId: string, received: string | undefined) => {
    const entry = find(volumeId)
    if (received === undefined || entry?.desired.incoming?.transferId !== received)
      throw new Error('the move of the volume to this host was canceled')
    await finish(entry, { ...entry.done, received })
  }
  const moves = createMoves({
    ...deps,
    keep,
    onChange(volumeId) {
      const entry = find(volumeId)
      if (entry) report(entry)
    },
  })
  const withVms = volumesWithVms({
    holders,
    mutex,
    isGone,
    keyOf,
    keep: volumeId => keep(volumeId, find(volumeId)?.desired.incoming?.transferId),
    poolOf: volumeId => poolOf(find(volumeId)?.desired.pool ?? ''),
    async checkArrival(disk) {
      const desired = find(disk.volumeId)?.desired
      const signal = moves.signalOf(disk.volumeId)
      if (desired?.want !== 'present' || !desired.incoming || !signal)
        throw new StepError('volume_missing', `volume ${disk.volumeId} is not expected on this host`)
      await deps.fence(disk)
      return signal
    },
  })
  return { moves, withVms }
}

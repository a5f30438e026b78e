/**
 * Workflow of a volume snapshot: its host creates it once; it is retained until it is deleted; then the host removes
 * it.
 */
import { BusError } from '../../bus/bus.ts'
import type { VolumeSnapshotObserved, VolumeSnapshotPut } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { type Next, done, go, workflow, wait } from '../../engine/workflow.ts'
import { poke } from '../../engine/runner.ts'
import { hours, minutes, seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { agentClient } from '../hosts/index.ts'
import { giveUpRestore, pokeVm } from '../vms/index.ts'
import { makingMs } from './create.ts'
import { pokeOwner, reachableHost } from './workflow.ts'
import type { VolumeSnapshot } from './snapshot-store.ts'
import * as store from './snapshot-store.ts'
import { byId as volumeById } from './store.ts'

/** Poll interval; only covers lost messages, because hosts report changes. */
const pollMs = seconds(15)

/** Desired state for the host. Removal has a later generation than creation. */
const desiredOf = (s: VolumeSnapshot): VolumeSnapshotPut => ({
  snapshotId: s.id,
  volumeId: s.volumeId,
  pool: s.poolName,
  generation: s.want === 'present' ? 1 : 2,
  want: s.want,
})

export const volumeSnapshotWorkflow = (deps: Pick<Deps, 'db' | 'bus' | 'config'>) =>
  workflow<VolumeSnapshot>()({
    kind: 'volume-snapshot',
    edges: { creating: ['keeping', 'removing'], keeping: ['removing'], removing: [] },
    load: id => store.byId(deps.db, id),
    preempt: s => (s.want === 'absent' ? 'removing' : undefined),
    phases: {
      async creating({ subject: s, enteredAt, now, signal }): Promise<Next<'keeping'>> {
        if (s.state !== 'creating') return go('keeping')
        if (s.volumeState === 'failed') return go('keeping', failed(s, 'the volume itself could not be created'))
        if (now.getTime() - enteredAt.getTime() > makingMs)
          return go('keeping', failed(s, 'the host did not finish the snapshot in time'))
        // The volume has no host or is not ready yet. The volume's workflow pokes this one when it is.
        if (!s.hostId || s.volumeState !== 'ready' || s.moving) return wait(pollMs)
        if (s.hostLost) return go('keeping', failed(s, 'the host of the volume is lost'))
        const { hostId } = s
        try {
          const observed = await agentClient(deps.bus, hostId).putVolumeSnapshot(desiredOf(s), signal)
          return wait(pollMs, tx => recordVolumeSnapshot(tx, hostId, observed))
        } catch (cause) {
          const refusal = refusalOf(cause)
          if (refusal === undefined) throw cause
          return go('keeping', failed(s, refusal))
        }
      },

      async keeping() {
        return wait(hours(1))
      },

      async removing({ subject: s, signal }) {
        // When the move has ended, its workflow pokes this one.
        if (s.moving) return wait(minutes(1))
        const volume = await volumeById(deps.db, s.volumeId)
        if (volume?.hostId && !(volume.bound && volume.hostRemoved)) {
          const hostId = await reachableHost(deps, volume)
          // No host that reaches the volume is up. Retry later, because a lost host may come back.
          if (hostId === undefined) return wait(minutes(10))
          const observed = await agentClient(deps.bus, hostId).putVolumeSnapshot(desiredOf(s), signal)
          if (observed.state !== 'absent') return wait(pollMs)
        }
        return done(async tx => {
          await store.remove(tx, s.id)
          await pokeOwner(tx, s)
        })
      },
    },
  })

const failed = (s: VolumeSnapshot, why: string) => async (tx: Tx) => {
  await store.fail(tx, s.id, why)
  await notifyVms(tx, s.id, 'failed')
  await pokeOwner(tx, s)
}

/**
 * Pokes VMs whose restore waits for this snapshot. Before a VM is restored from a VM snapshot, the current content of
 * its volumes is saved in volume snapshots. If that fails, the VM boots instead of being restored.
 */
async function notifyVms(tx: Tx, snapshotId: string, state: 'ready' | 'failed'): Promise<void> {
  for (const vmId of await store.vmsWaitingFor(tx, snapshotId)) {
    if (state === 'failed') await giveUpRestore(tx, vmId)
    await pokeVm(tx, vmId)
  }
}

/** Returns the error message if the host refused permanently, so that a retry would not help. */
function refusalOf(cause: unknown): string | undefined {
  const final = ['no_such_pool', 'invalid_volume', 'invalid_snapshot', 'volume_missing']
  return cause instanceof BusError && final.includes(cause.remoteCode ?? '') ? cause.message : undefined
}

/**
 * Records a host's observation of a snapshot, and pokes the workflows that depend on it. Called for every such
 * observation.
 */
export async function recordVolumeSnapshot(tx: Tx, hostId: string, observed: VolumeSnapshotObserved): Promise<void> {
  const { state } = observed
  if (state === 'absent') return poke(tx, 'volume-snapshot', observed.snapshotId)
  if (state !== 'ready' && state !== 'failed') return
  const { snapshotId, sizeBytes, pauseMs, error } = observed
  if (!(await store.record(tx, hostId, { snapshotId, state, sizeBytes, pauseMs, error }))) return
  await poke(tx, 'volume-snapshot', snapshotId)
  await notifyVms(tx, snapshotId, state)
  const snapshot = await store.byId(tx, snapshotId)
  if (snapshot) await pokeOwner(tx, snapshot)
}
